"""Pace of background work in a process that answers calls.

To check and load a version takes the GIL, and a core, from the threads that answer calls. The thread that does so is paced
(`paced`): at the points that the work marks (`give_way`) it sleeps once it has worked for a millisecond, for a multiple of
that time. A call then waits for one such piece of work at most, however many versions are loaded in a row. Other threads are
not paced, so that the same functions cost a command line nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Pace", "give_way", "paced"]

WORK_S = 0.001  # processor time; a call of 64 positions takes 3 to 7 ms
REST = 8.0  # times the work: a load of 17 ms takes 0.15 s, and takes a core from the calls for a ninth of that time
LONGEST_REST_S = 0.05  # after a step that cannot be divided


class Pace:
    """Pace of one thread."""

    def __init__(self, *, clock: Callable[[], float] = time.thread_time, sleep: Callable[[float], None] = time.sleep) -> None:
        """`clock`: processor time of the thread, so that waits for a core do not count as work."""
        self._clock = clock
        self._sleep = sleep
        self._began_s = clock()

    def give_way(self) -> None:
        """Sleep if the thread has worked for `WORK_S` since it last slept here."""
        worked_s = self._clock() - self._began_s
        if worked_s >= WORK_S:
            self._sleep(min(REST * worked_s, LONGEST_REST_S))
            self._began_s = self._clock()


class _Paces(threading.local):
    current: Pace | None = None


_paces = _Paces()


@contextmanager
def paced(pace: Pace | None = None) -> Iterator[None]:
    """Pace this thread until the block ends."""
    before, _paces.current = _paces.current, pace or Pace()
    try:
        yield
    finally:
        _paces.current = before


def give_way() -> None:
    """Let the calls of other threads proceed if this thread is paced and has worked long enough."""
    if _paces.current is not None:
        _paces.current.give_way()
