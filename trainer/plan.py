"""Plan of a run: the share of its time that has passed, over all sessions.

    earlier sessions ──► this one ─────────► now ─────────► planned end
    └──────────────── active ────────────────┘

The end is a wall-clock time, so that a restarted process keeps it; durations are monotonic. A run that is resumed with a new
end continues at the share of the longer whole that has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Plan"]


class Plan:
    """Planned time of a run; its session begins with this object."""

    def __init__(
        self,
        earlier_s: float,
        end_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`earlier_s`: active time of earlier sessions. `end_s`: planned end, seconds since 1970; 0 if there is none."""
        self._earlier_s = earlier_s
        self._clock = clock
        self._began_s = clock()
        self._planned_s = earlier_s + max(0.0, end_s - wall_clock()) if end_s else None

    @property
    def active_s(self) -> float:
        """Active time of all sessions."""
        return self._earlier_s + self._clock() - self._began_s

    def progress(self) -> float | None:
        """Return the share of the planned time that has passed, in [0, 1]; None without a planned end."""
        if self._planned_s is None:
            return None
        return min(1.0, self.active_s / self._planned_s) if self._planned_s else 1.0
