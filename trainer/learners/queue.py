"""Queues of games: windows of learners that use each game once, in the order of the game log.

A restart reads the games that were not learned from yet.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from trainer.learners.contract import Taken
from zerofleet.contracts.records import ValidatedGame

__all__ = ["GameQueue", "SampleQueue"]

Content = TypeVar("Content", bound=Taken)
Item = TypeVar("Item")


class SampleQueue(ABC, Generic[Content, Item]):
    """Games that wait for the learner, first in, first out; see `trainer.learners.contract.Window`. Thread-safe.

    Its samples are what the learner reads from a game, such as positions; they are kept until they have been taken.
    """

    refuses_late = False

    def __init__(self, read: Callable[[ValidatedGame], Content], *, first: int = 0, keeps_empty: bool = False) -> None:
        """Make an empty queue.

        Args:
            read: Returns the samples of a game; raises `RecordRejected` for one that cannot be used.
            first: Number of the next sample, when earlier ones were learned from before the start.
            keeps_empty: Whether a game without samples waits too, and counts as one; otherwise it is dropped.
        """
        self._read = read
        self.keeps_empty = keeps_empty
        self._total = self._taken = first
        self._waiting: deque[Content] = deque()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Samples that ever arrived."""
        return self._total

    @property
    def taken(self) -> int:
        """Samples that the learner has taken."""
        return self._taken

    def __len__(self) -> int:
        """Return the number of samples that wait."""
        return self._total - self._taken

    @property
    def waiting(self) -> int:
        """Number of samples that wait."""
        return len(self)

    @property
    def games(self) -> int:
        """Number of games that wait."""
        return len(self._waiting)

    def read(self, played: ValidatedGame) -> Content:
        """Return the samples of a game."""
        return self._read(played)

    def add(self, samples: Content) -> None:
        """Append a game."""
        if len(samples) or self.keeps_empty:
            with self._lock:
                self._waiting.append(samples)
                self._total += self._count(samples)

    @abstractmethod
    def take(self) -> Item:
        """Remove and return the next item; there must be one."""

    def skip_to(self, sample: int) -> None:
        """Drop what comes before a sample: it was learned from before the start."""
        while self._waiting and self._taken < sample:
            self.take()

    def _count(self, samples: Content) -> int:
        return max(1, len(samples)) if self.keeps_empty else len(samples)


class GameQueue(SampleQueue[Content, Content]):
    """Queue of which the learner takes whole games."""

    def take(self) -> Content:
        """Remove and return the next game; there must be one."""
        with self._lock:
            taken = self._waiting.popleft()
            self._taken += self._count(taken)
            return taken
