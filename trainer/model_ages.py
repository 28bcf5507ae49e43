"""Oldest model version in the window: late games of still older versions are not trained on.

The window drops games in order of arrival. A late game of a model older than all in the window would be trained on after its
contemporaries were dropped. The champion's games are never too old: after a rollback all new games are of an old model.
"""

from __future__ import annotations

from collections import deque

__all__ = ["ModelAges"]


class ModelAges:
    """Oldest model version among the games of a window that slides over samples."""

    def __init__(self, samples: int) -> None:
        """`samples`: samples that arrived before the start; their model versions are unknown."""
        self._start = self._total = samples
        self._rising: deque[tuple[int, int]] = deque()  # (samples up to here, version), versions ascending

    def note(self, version: int, samples: int) -> None:
        """Record a game of `samples` samples whose newest model is `version`."""
        self._total += samples
        while self._rising and self._rising[-1][1] >= version:
            self._rising.pop()
        self._rising.append((self._total, version))

    def oldest(self, begin: int) -> int:
        """Return the oldest version in a window that begins after `begin` samples; 0 while it is unknown."""
        while self._rising and self._rising[0][0] <= begin:
            self._rising.popleft()
        return self._rising[0][1] if self._rising and begin >= self._start else 0
