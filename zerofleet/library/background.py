"""The event loop of the library: one for the process, in a daemon thread, made when it is first needed.

Functions for a person at a prompt wait for it, and so may be called where another event loop runs, as in a notebook. The
thread lives as long as the process: services end with the thread that started them (`zerofleet.service.lifecycle`).

A forked process has no thread but the one that forked. It begins a loop of its own, unless the parent's was at work at the
fork: then gRPC had connections open, which work in the parent alone. So have the exceptions of failed calls until they are
collected, which the fork does; those that the program still holds it cannot.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from zerofleet.errors import ConfigurationError

__all__ = ["at_exit", "in_background", "not_at_exit", "require_usable", "start", "wait_for"]

EXIT_TIMEOUT_S = 30.0  # longer than the grace time of a service without a setting

Result = TypeVar("Result")
Closer = Callable[[], Awaitable[None]]

_closers: dict[object, Closer] = {}
_starting = threading.Lock()
_of_parents: list[tuple[asyncio.AbstractEventLoop, set[asyncio.Task[Any]]]] = []
"""Loops of the processes from which this one was forked, with their tasks; held, since a collected task would end what is the
parent's."""


def start(work: Coroutine[Any, Any, Result]) -> Future[Result]:
    """Run a coroutine in the library's event loop and return its future at once; raises as `require_usable`."""
    try:
        require_usable()
    except ConfigurationError:
        work.close()
        raise
    with _starting:  # one loop, whichever thread asks first
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(work, loop)


def require_usable() -> None:
    """Raise `ConfigurationError` in a process that was forked while the loop of its parent was at work."""
    if any(tasks for _, tasks in _of_parents):
        raise ConfigurationError(
            "this process was forked while its parent trained a run, asked a model or played a match; start it earlier, or by"
            ' multiprocessing.get_context("spawn")'
        )


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in the library's event loop and return its result; an interrupt of the wait cancels it.

    Raises as `start`.
    """
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Await a coroutine that runs in the library's event loop. Raises as `start`. Cancellation: it is cancelled there."""
    return await asyncio.wrap_future(start(work))


def at_exit(owner: object, close: Closer) -> None:
    """Have `close` awaited at the end of the process, unless `not_at_exit` is called for the owner before."""
    _closers[owner] = close


def not_at_exit(owner: object) -> None:
    """Forget the owner: it has been closed."""
    _closers.pop(owner, None)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="zerofleet-library", daemon=True).start()
    atexit.register(_end, loop)
    return loop


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Close every owner that is still open; one that does not close in time ends with the process."""
    with contextlib.suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(_close_all(), loop).result(EXIT_TIMEOUT_S)


async def _close_all() -> None:
    await asyncio.gather(*(close() for close in list(_closers.values())), return_exceptions=True)


def _leave_to_parent() -> None:
    """Forget the loop, whose thread is not in this forked process, and its owners, which the parent closes."""
    _starting.release()
    if _loop.cache_info().currsize:
        loop = _loop()
        _of_parents.append((loop, asyncio.all_tasks(loop)))
        _loop.cache_clear()
        _closers.clear()
        atexit.unregister(_end)


def _before_fork() -> None:
    if _loop.cache_info().currsize:
        gc.collect()  # before the lock: what is collected may start the end of its server
    _starting.acquire()


os.register_at_fork(before=_before_fork, after_in_parent=_starting.release, after_in_child=_leave_to_parent)
