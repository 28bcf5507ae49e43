"""Processor time of the loop by part.

Time is charged to the innermost part that runs; time outside all parts is `self_play`, the worker's own Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

__all__ = ["NOT_COUNTED", "PARTS", "InlineExecutor", "ProcessorClock"]

PARTS = ("search", "evaluation", "self_play", "intake", "learning", "adoption")
"""Parts of the loop: compiled search; networks; openings, records and diagnostics; validation, samples and game log; steps;
export and loading of candidates."""
NOT_COUNTED = "not_counted"
"""Part outside the budget: judgement."""


class ProcessorClock:
    """Processor seconds of this process, all threads together, by part. Not thread-safe."""

    def __init__(self, read_s: Callable[[], float] = time.process_time) -> None:
        """`read_s`: clock of processor time, in seconds."""
        self._read_s = read_s
        self._spent_s = dict.fromkeys((*PARTS, NOT_COUNTED), 0.0)
        self._part = "self_play"
        self._since_s = read_s()
        self.before_s = 0.0
        """Seconds of the process before the last `restart`: imports, compilation and other preparations."""

    @property
    def used_s(self) -> float:
        """Seconds of all counted parts."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Return the seconds of each counted part."""
        self._charge()
        return {part: self._spent_s[part] for part in PARTS}

    def restart(self) -> None:
        """Set the times of all parts to 0."""
        self._spent_s = dict.fromkeys((*PARTS, NOT_COUNTED), 0.0)
        self._since_s = self.before_s = self._read_s()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Charge the time of the block to a part."""
        self._charge()
        outer, self._part = self._part, name
        try:
            yield
        finally:
            self._charge()
            self._part = outer

    def _charge(self) -> None:
        now_s = self._read_s()
        self._spent_s[self._part] += now_s - self._since_s
        self._since_s = now_s


class InlineExecutor(Executor):
    """Executor that runs work at once in the calling thread: the order of all work is then fixed."""

    def __init__(self, clock: ProcessorClock, part: str) -> None:
        """Charge the work to `part`."""
        self._clock = clock
        self._part = part

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` and return its completed future."""
        future: Future[Any] = Future()
        with self._clock.part(self._part):
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
        return future
