"""Work in threads that the end of the process does not wait for.

For calls that cannot be interrupted and whose result matters to their caller alone: a compilation, a deep search. The threads
of a `ThreadPoolExecutor` are joined at the end of the process; these are not.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

__all__ = ["DaemonPool", "in_daemon_thread"]

T = TypeVar("T")


class _DaemonThreads(Executor):
    """A daemon thread for each call."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn` in a new thread."""
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name="daemon-work", daemon=True).start()
        return future


_THREADS = _DaemonThreads()


async def in_daemon_thread(work: Callable[[], T], *, at_end: Callable[[], object] = lambda: None) -> T:
    """Return `work()`, called in a daemon thread of its own; its exceptions propagate.

    `at_end` is called on the event loop when the work has ended, also after a cancellation.
    Cancellation: the wait ends, the work goes on.
    """
    job = asyncio.get_running_loop().run_in_executor(_THREADS, work)

    def ended(job: asyncio.Future[T]) -> None:
        at_end()
        if not job.cancelled():
            job.exception()  # read here, as the caller may have been cancelled

    if job.done():  # from Python 3.14 on, work that ends at once is reported before this line
        ended(job)
    else:
        job.add_done_callback(ended)
    return await asyncio.shield(job)


class DaemonPool:
    """At most `threads` daemon threads that take one piece of work after another, so that buffers of a thread are reused."""

    def __init__(self, threads: int, *, name: str) -> None:
        """Create a pool; its threads are called `name` and start with the first work that finds none free."""
        self._most = threads
        self._name = name
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._free = 0
        """Number of free threads less that of waiting work."""
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def call(self, work: Callable[[], None]) -> None:
        """Call `work`, which raises nothing, in a free thread or in the first that becomes free."""
        with self._lock:
            self._free -= 1
            self._jobs.put(work)
            if self._free < 0 and len(self._threads) < self._most:
                self._free += 1
                self._threads.append(threading.Thread(target=self._serve, name=self._name, daemon=True))
                self._threads[-1].start()

    def close(self) -> None:
        """Let every thread end after the work that was given before; nothing is called afterwards."""
        for _ in self._threads:
            self._jobs.put(None)

    def join(self) -> None:
        """Wait until the threads of a closed pool have ended."""
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._jobs.get()) is not None:
            work()
            del work  # or its objects would live until the next call
            with self._lock:
                self._free += 1
