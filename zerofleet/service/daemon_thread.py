"""Work in a thread that the end of the process does not wait for.

For calls that cannot be interrupted and whose result matters to their caller alone: a compilation, a deep search. The threads
of an executor are joined at the end of the process; daemon threads are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

__all__ = ["in_daemon_thread"]

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T], *, name: str, at_end: Callable[[], object] = lambda: None) -> T:
    """Return `work()`, called in a daemon thread named `name`; its exceptions propagate.

    `at_end` is called on the event loop when the work has ended, also after a cancellation.
    Cancellation: the wait ends, the work goes on.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def finish(settle: Callable[[], None]) -> None:
        at_end()
        if not result.done():  # else the caller was cancelled
            settle()

    def run() -> None:
        try:
            settle = partial(result.set_result, work())
        except Exception as failure:
            settle = partial(result.set_exception, failure)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(finish, settle)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
