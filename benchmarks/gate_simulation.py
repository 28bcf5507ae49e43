"""Simulation of a sequential test: error rates and lengths for players of any true strength.

    field = tilted(DRAWISH, share_from_elo(50.0))
    simulate(Sprt(elo0=0.0, elo1=50.0), field, runs=10_000, max_pairs=5_000, seed=1).mean_pairs

A *field* is the probability of each score of a pair, [5], in the order of `PENTANOMIAL_SCORES`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings.likelihood import PENTANOMIAL_SCORES
from zerofleet.strength.ratings.sprt import Sprt

__all__ = ["DECISIVE", "DRAWISH", "SimulatedTests", "simulate", "tilted"]

DRAWISH = np.array([0.08, 0.15, 0.54, 0.15, 0.08])
"""Equal players that draw often, or whose openings favour one side."""
DECISIVE = np.array([0.2, 0.05, 0.5, 0.05, 0.2])
"""Equal players that rarely draw."""

BISECTIONS = 200
STEEPEST_TILT = 60.0


@dataclass(frozen=True, slots=True)
class SimulatedTests:
    """Number of simulated tests by outcome."""

    stronger: int
    not_stronger: int
    undecided: int
    """Tests without a decision at the last pair."""
    mean_pairs: float
    longest_5_percent: int
    """Minimum number of pairs of the longest twentieth of the tests."""

    @property
    def runs(self) -> int:
        """Number of simulated tests."""
        return self.stronger + self.not_stronger + self.undecided


def tilted(field: np.ndarray, mean: float) -> np.ndarray:
    """Return the field nearest to `field` (float [5], all positive) with a mean share of `mean`, in (0, 1)."""
    if not 0.0 < mean < 1.0:
        raise ConfigurationError(f"a field cannot have a mean share of {mean}; choose one between 0 and 1")
    low, high = -STEEPEST_TILT, STEEPEST_TILT
    found = np.asarray(field, dtype=np.float64)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        found = field * np.exp(middle * PENTANOMIAL_SCORES)
        found = found / found.sum()
        low, high = (middle, high) if found @ PENTANOMIAL_SCORES < mean else (low, middle)
    return found


def simulate(test: Sprt, field: np.ndarray, *, runs: int, max_pairs: int, seed: int) -> SimulatedTests:
    """Return the outcomes of `runs` tests, within `max_pairs`, of players whose pairs score according to `field` (float [5]).

    All tests advance together, one pair at a time.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros((runs, len(PENTANOMIAL_SCORES)))
    stronger = not_stronger = 0
    lengths: list[np.ndarray] = []
    for pair in range(1, max_pairs + 1):
        outcomes = rng.choice(len(PENTANOMIAL_SCORES), size=len(counts), p=field)
        counts[np.arange(len(counts)), outcomes] += 1
        ratios = test.log_likelihood_ratio(counts, PENTANOMIAL_SCORES)
        passed, failed = ratios >= test.upper, ratios <= test.lower
        stronger += int(passed.sum())
        not_stronger += int(failed.sum())
        lengths.append(np.full(int((passed | failed).sum()), pair))
        counts = counts[~(passed | failed)]
        if not len(counts):
            break
    pairs = np.concatenate([*lengths, np.full(len(counts), max_pairs)])
    longest = int(np.quantile(pairs, 0.95, method="higher"))
    return SimulatedTests(stronger, not_stronger, len(counts), float(pairs.mean()), longest)
