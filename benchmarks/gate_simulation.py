"""Simulation of a sequential test: error rates and lengths for players of any true strength.

    field = tilted(DRAWISH, share_from_elo(50.0))
    simulate(Sprt(elo0=0.0, elo1=50.0), field, runs=10_000, max_pairs=5_000, seed=1).mean_pairs

`python -m benchmarks.gate_simulation` prints the tables of docs/decisions/0005-gate-statistics.md and 0013-watch.md.

A *field* is the probability of each score of a pair, [5], in the order of `PENTANOMIAL_SCORES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.presets import GateSettings
from zerofleet.strength.ratings.intervals import share_from_elo
from zerofleet.strength.ratings.likelihood import PENTANOMIAL_SCORES
from zerofleet.strength.ratings.sprt import Sprt

Statistic = Callable[[Sprt, np.ndarray, np.ndarray], np.ndarray]

__all__ = ["DECISIVE", "DRAWISH", "SimulatedTests", "main", "simulate", "tilted"]

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


def simulate(
    test: Sprt, field: np.ndarray, *, runs: int, max_pairs: int, seed: int, statistic: Statistic = Sprt.evidence
) -> SimulatedTests:
    """Return the outcomes of `runs` tests, within `max_pairs`, of players whose pairs score according to `field` (float [5]).

    All tests advance together, one pair at a time. `statistic` is compared with the bounds: `Sprt.log_likelihood_ratio` is the
    test without its bet.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros((runs, len(PENTANOMIAL_SCORES)))
    stronger = not_stronger = 0
    lengths: list[np.ndarray] = []
    for pair in range(1, max_pairs + 1):
        outcomes = rng.choice(len(PENTANOMIAL_SCORES), size=len(counts), p=field)
        counts[np.arange(len(counts)), outcomes] += 1
        ratios = statistic(test, counts, PENTANOMIAL_SCORES)
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


def main() -> None:
    """Print mean lengths and rates of the default gate and watch by true strength, in Markdown."""
    gate, runs, seed = GateSettings(), 2_000, 1
    fields = {"drawish": DRAWISH, "decisive": DECISIVE}
    before = Sprt.log_likelihood_ratio
    tests = {
        "gate without its bet": (Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta), before),
        "gate": (Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta), Sprt.evidence),
        "watch": (Sprt(gate.watch_elo0, gate.watch_elo1, gate.alpha, gate.beta), Sprt.evidence),
    }
    for title, (test, statistic) in tests.items():
        print(f"\n{title}\n\n| true Elo |" + "".join(f" {name}: passes | fails | pairs |" for name in fields))  # noqa: T201
        print("| --- |" + " --- | --- | --- |" * len(fields))  # noqa: T201
        for elo in (-800.0, -300.0, -200.0, -100.0, -75.0, -50.0, -25.0, 0.0, 25.0, 50.0, 100.0, 200.0, 300.0, 800.0):
            cells = ""
            for field in fields.values():
                at = tilted(field, share_from_elo(elo))
                found = simulate(test, at, runs=runs, max_pairs=gate.max_pairs, seed=seed, statistic=statistic)
                cells += f" {found.stronger / runs:.1%} | {found.not_stronger / runs:.1%} | {found.mean_pairs:.1f} |"
            print(f"| {elo:+.0f} |{cells}")  # noqa: T201


if __name__ == "__main__":
    main()
