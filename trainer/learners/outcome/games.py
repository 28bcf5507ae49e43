"""Games of the learner `outcome`: those that wait, those that were learned from, and those held out for measurements.

    add ─┬─► waiting ── take ──► memory      the last games learned from, for replays
         └─► held out                        the last ones, for measurements

Samples are positions, numbered in order of arrival. What a restart needs is read from the game log again.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

import numpy as np

from trainer.learners.outcome.labels import Labelled, read_labels
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["LabelledGames"]


class _Placed(NamedTuple):
    """Game with the number of its first sample."""

    first: int
    game: Labelled


class LabelledGames:
    """Labelled games in order of arrival; see `trainer.learners.contract.Window`. Thread-safe."""

    refuses_late = False

    def __init__(self, settings: OutcomeSettings, *, first: int = 0) -> None:
        """`first`: number of the next sample, when earlier ones are not needed any more."""
        self._settings = settings
        self._total = first
        self._waiting: deque[_Placed] = deque()
        self._waiting_samples = 0
        self._memory: deque[_Placed] = deque(maxlen=settings.memory_games if settings.replays else 0)
        self._held_out: deque[_Placed] = deque(maxlen=settings.held_out_games)
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Positions that ever arrived, held-out ones included."""
        return self._total

    def __len__(self) -> int:
        """Return the number of positions from the oldest game kept on."""
        with self._lock:
            kept = [games[0].first for games in (self._waiting, self._memory, self._held_out) if games]
            return self._total - min(kept, default=self._total)

    @property
    def waiting(self) -> int:
        """Number of positions that wait, without those of held-out games."""
        return self._waiting_samples

    @property
    def games(self) -> int:
        """Number of games that wait."""
        return len(self._waiting)

    @property
    def held_out(self) -> list[Labelled]:
        """The held-out games, oldest first."""
        with self._lock:
            return [placed.game for placed in self._held_out]

    def read(self, played: ValidatedGame) -> Labelled:
        """Return the labelled positions of a game; see `read_labels`."""
        return read_labels(played, self._settings)

    def add(self, samples: Labelled) -> None:
        """Append a game; one without positions is dropped."""
        if not len(samples):
            return
        with self._lock:
            if samples.ranked is None:
                self._waiting.append(_Placed(self._total, samples))
                self._waiting_samples += len(samples)
            else:
                self._held_out.append(_Placed(self._total, samples))
            self._total += len(samples)

    def take(self, count: int) -> list[Labelled]:
        """Remove and return the next games, and remember them; there must be as many."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(count)]
            self._waiting_samples -= sum(len(placed.game) for placed in taken)
            self._memory.extend(taken)
            return [placed.game for placed in taken]

    def draw(self, count: int, rng: np.random.Generator) -> list[Labelled]:
        """Return games that were learned from, drawn uniformly from the memory; some may be equal."""
        with self._lock:
            return [self._memory[index].game for index in rng.integers(len(self._memory), size=count)]

    @property
    def position(self) -> int:
        """Number of the first sample that waits: `skip_to` of it restores the queue after a restart."""
        with self._lock:
            return self._waiting[0].first if self._waiting else self._total

    def skip_to(self, position: int) -> None:
        """Remember the games before a position: they were learned from before the start."""
        while self._waiting and self._waiting[0].first < position:
            self.take(1)
