"""Replay window: the most recent samples, in a number given by a sublinear rule.

Early games are poor, and a small window drops them quickly; later a large one keeps variety. The rule is KataGo's (Wu
2019, "Accelerating Self-Play Learning in Go", appendix C): with N samples ever made, the window contains

    c (1 + beta ((N / c)^alpha - 1) / alpha)        for N > c, and all N before

so that it grows by beta samples for each new one at first, and ever more slowly afterwards.
"""

from __future__ import annotations

import threading

import numpy as np

from games.core import GameSpec
from trainer.samples import Samples, extract, require_target
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets import TrainSettings

__all__ = ["SampleWindow", "window_size"]

_FIRST_CAPACITY = 4096


def window_size(total: int, settings: TrainSettings) -> int:
    """Return the number of samples in the window out of `total`."""
    c, alpha, beta = settings.window_min, settings.window_exponent, settings.window_slope
    if total <= c:
        return min(total, settings.window_max)
    grown = c * (1.0 + beta * ((total / c) ** alpha - 1.0) / alpha)
    return min(int(grown), total, settings.window_max)


class SampleWindow:
    """Ring buffer of samples in flat arrays. One thread may add while another draws.

    Samples are numbered from 0 in order of arrival; sample n is in row n modulo the capacity. It is the window of the learner
    `alphazero` (`trainer.learners.contract.Window`).
    """

    refuses_late = True

    def __init__(self, spec: GameSpec, settings: TrainSettings, *, first: int = 0) -> None:
        """`first`: number of the next sample, when earlier ones were left out on purpose.

        Raises `ConfigurationError` for a policy target that the game does not support.
        """
        require_target(spec, settings.policy_target)
        self._spec = spec
        self._settings = settings
        self._first = first
        self._total = first
        self._rows = Samples.empty(spec, _FIRST_CAPACITY)
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """0: no sample waits, the learner draws."""
        return 0

    @property
    def total(self) -> int:
        """Samples that ever arrived."""
        return self._total

    def __len__(self) -> int:
        """Return the number of samples that can be drawn."""
        return min(window_size(self._total, self._settings), self._total - self._first)

    def read(self, played: ValidatedGame) -> Samples:
        """Return the samples of a game; see `trainer.samples.extract`."""
        return extract(played, self._settings)

    def add(self, samples: Samples) -> None:
        """Append samples and drop the oldest according to the rule."""
        if not len(samples):
            return
        with self._lock:
            after = self._total + len(samples)
            self._reserve(min(window_size(after, self._settings), after - self._first))
            capacity = len(self._rows)
            first = max(self._total, after - capacity)
            row, skipped = first % capacity, first - self._total
            straight = min(after - first, capacity - row)  # the rest begins anew at row 0
            for stored, new in zip(self._rows.arrays, samples.arrays, strict=True):
                stored[row : row + straight] = new[skipped : skipped + straight]
                stored[: after - first - straight] = new[skipped + straight :]
            self._total = after

    def draw(self, count: int, rng: np.random.Generator) -> Samples:
        """Return copies of `count` samples drawn uniformly, with replacement; the window must not be empty."""
        with self._lock:
            numbers = rng.integers(self._total - len(self), self._total, count)
            rows = numbers % len(self._rows)
            return Samples(*(array[rows] for array in self._rows.arrays))

    def _reserve(self, wanted: int) -> None:
        """Grow the capacity to at least `wanted`, keeping every sample in the row of its number.

        At most the old window and once more its largest array are in memory: `Samples.empty` writes no page, and each array
        is freed once it is copied. When there is no memory, the allocation raises `MemoryError` and the window is unchanged.
        """
        capacity = len(self._rows)
        if wanted <= capacity:
            return
        larger = Samples.empty(self._spec, min(max(wanted, 2 * capacity), self._settings.window_max))
        kept = _straight_rows(max(self._first, self._total - capacity), self._total, capacity, len(larger))
        former, self._rows = list(self._rows.arrays), larger
        for new in larger.arrays:
            old = former.pop(0)
            for source, target in kept:
                new[target] = old[source]


def _straight_rows(first: int, end: int, capacity: int, larger: int) -> list[tuple[slice, slice]]:
    """Return the rows of the samples `first` to `end` in rings of two capacities, as parts that wrap around in neither."""
    parts = []
    while first < end:
        source, target = first % capacity, first % larger
        length = min(end - first, capacity - source, larger - target)
        parts.append((slice(source, source + length), slice(target, target + length)))
        first += length
    return parts
