"""How old the models are whose games the window holds: a game of an older one is not learnt from any more.

The window forgets games in the order in which they came. One that comes late, of a model older than any whose games are still
in the window, would be learnt from after its contemporaries were forgotten. The champion's games are never too old: after a
rollback they are of an old model, and all there are.
"""

from __future__ import annotations

from collections import deque

__all__ = ["ModelAges"]


class ModelAges:
    """The oldest model of the games in a window, for a window that slides over samples."""

    def __init__(self, samples: int) -> None:
        """`samples`: how many there ever were at the start; of the models of these nothing is known."""
        self._start = self._total = samples
        self._rising: deque[tuple[int, int]] = deque()  # (samples up to here, version), of versions that no later one undercuts

    def note(self, version: int, samples: int) -> None:
        """Take note of a game of so many samples, the newest model of which is `version`."""
        self._total += samples
        while self._rising and self._rising[-1][1] >= version:
            self._rising.pop()
        self._rising.append((self._total, version))

    def oldest(self, begin: int) -> int:
        """Return the oldest version in a window that begins after `begin` samples; 0 while that cannot be known."""
        while self._rising and self._rising[0][0] <= begin:
            self._rising.popleft()
        return self._rising[0][1] if self._rising and begin >= self._start else 0
