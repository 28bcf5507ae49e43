"""Processor time of processes, as cores used over a sliding window."""

from __future__ import annotations

import math
from collections import deque

import psutil

__all__ = ["ProcessorTime"]

WINDOW_S = 30.0


class ProcessorTime:
    """Processor time of one service at a time each; a restart begins a new measurement."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._pid: int | None = None
        self._seen: deque[tuple[float, float]] = deque()

    def take(self, at_s: float, pid: int | None) -> None:
        """Read the processor time of the service's process, at a time on the monotonic clock."""
        spent_s = _spent_s(pid)
        if pid != self._pid or spent_s is None:
            self._pid = pid
            self._seen.clear()
        if spent_s is not None:
            self._seen.append((at_s, spent_s))
        while len(self._seen) > 2 and self._seen[1][0] <= at_s - self._window_s:
            self._seen.popleft()

    @property
    def cores(self) -> float:
        """Cores used over the window, threads together; NaN before two readings of the same process."""
        if len(self._seen) < 2:
            return math.nan
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else math.nan


def _spent_s(pid: int | None) -> float | None:
    """Return the processor time of a process since its start, None if it is gone or cannot be read."""
    try:
        if pid is None:
            return None
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):  # the latter: too many open files
        return None
    return float(times.user + times.system)
