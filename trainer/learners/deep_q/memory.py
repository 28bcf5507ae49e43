"""Memory of the last N transitions, first in, first out, and draws from it.

Axes: N capacity, n transitions kept, M moves of a pool, B draws.
"""

from __future__ import annotations

import numpy as np

from trainer.learners.deep_q.sweep import Chain, by_sweeps
from trainer.learners.deep_q.transitions import Transitions
from zerofleet.presets.deep_q import DeepQSettings

__all__ = ["Memory", "chain_of", "expected_results"]

_LEAST_PRIORITY = 1e-3  # so that no transition is never drawn


class Memory:
    """Ring of transitions."""

    def __init__(self, settings: DeepQSettings, *, packed_bytes: int, pool: int) -> None:
        self._settings = settings
        self.ring = Transitions.empty(settings.replay, packed_bytes=packed_bytes, pool=pool)
        self.inserted = 0
        """Transitions that ever entered."""

    def __len__(self) -> int:
        return min(self.inserted, self._settings.replay)

    def insert(self, transition: Transitions) -> None:
        """Add one transition in the place of the oldest."""
        place = self.inserted % self._settings.replay
        for column, fresh in zip(self.ring, transition, strict=True):
            column[place] = fresh[0]
        self.inserted += 1

    def by_age(self, ages: np.ndarray) -> np.ndarray:
        """Return the places of the transitions after which so many others arrived."""
        return np.asarray((self.inserted - 1 - ages) % self._settings.replay)

    def draw(self, count: int, rng: np.random.Generator, values: np.ndarray | None = None) -> np.ndarray:
        """Return the places of `count` transitions, drawn with replacement by the sampling of the settings, int64 [B].

        `values`: values of all transitions by place, float [N], for `sweep`.
        """
        kept = len(self)
        if self._settings.sampling == "uniform":
            return self.by_age(rng.integers(kept, size=count))
        if self._settings.sampling == "poisson":
            return self.by_age(_poisson_below(kept, self._settings.poisson_age, count, rng))
        if values is None:
            raise ValueError("sampling=sweep draws by the distance between values and results; none were given")
        shares = np.abs(expected_results(self) - values[:kept]) + _LEAST_PRIORITY
        return rng.choice(kept, size=count, p=shares / shares.sum())


def expected_results(memory: Memory) -> np.ndarray:
    """Return the result expected from the position of each transition, by place, float64 [n]: the chance of a win less that
    of a loss in the chain of the memory. A line that the memory does not hold to its end counts as a draw."""
    chain, states = chain_of(memory)
    ends = by_sweeps(chain)
    return np.asarray((ends[:, 0] - ends[:, 1])[states])


def chain_of(memory: Memory) -> tuple[Chain, np.ndarray]:
    """Return the Markov chain of the transitions in memory, and the state of each, by place, int64 [n].

    Its terminal classes are wins, losses, draws, and positions beyond the memory.
    """
    kept = len(memory)
    ring = memory.ring
    places = memory.by_age(np.arange(kept - 1, -1, -1))  # the oldest first
    numbers: dict[bytes, int] = {}
    for place in places:
        numbers.setdefault(ring.states[place].tobytes(), len(numbers))
    count = len(numbers)
    between, ending = np.zeros((count, count)), np.zeros((count, 4))
    states = np.zeros(kept, np.int64)
    for place in places:
        i = states[place] = numbers[ring.states[place].tobytes()]
        if ring.ended[place]:
            result = float(ring.results[place])
            ending[i, 0 if result > 0 else 1 if result < 0 else 2] += 1.0
        elif (j := numbers.get(ring.next_states[place].tobytes())) is not None:
            between[i, j] += 1.0
        else:
            ending[i, 3] += 1.0
    visits = between.sum(axis=1, keepdims=True) + ending.sum(axis=1, keepdims=True)
    return Chain(between / visits, ending / visits), states


def _poisson_below(bound: int, mean: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return Poisson numbers below `bound`, int64 [count], by inversion of the truncated distribution."""
    ages = np.arange(bound)
    logs = ages * np.log(mean) - np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, bound)))))
    weights = np.exp(logs - logs.max())
    ends = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(ends, rng.random(count), side="right"), bound - 1)
