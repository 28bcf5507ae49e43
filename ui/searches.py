"""Searches of agents and hints in threads of their own, a few at a time.

Neither the readers of files nor the end of the process waits for them: a search of `alpha_beta:40` cannot be interrupted, so it
runs in a daemon thread, and its place is taken until it ends. While all places are taken, others are refused after a while.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import Request

from zerofleet.errors import Overloaded
from zerofleet.search.daemon_thread import in_daemon_thread

__all__ = ["MOST_SEARCHES", "Searches", "run_while_connected"]

MOST_SEARCHES = 8
PATIENCE_S = 30.0
LEFT_EVERY_S = 0.5


class Searches:
    """Threads for at most `most` searches at a time; further ones wait. Used in one event loop."""

    def __init__(self, most: int = MOST_SEARCHES, *, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: longest wait for a place."""
        self._most = most
        self._patience_s = patience_s
        self._places = asyncio.Semaphore(most)

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return `work(*arguments)` from a thread; its exceptions propagate.

        Raises `Overloaded` when no place is free in time. Cancellation: a search that has begun keeps its place until it ends.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded(
                f"{self._most} searches are in progress, as many as run at a time; try again later, or choose a smaller budget"
            ) from None
        return await in_daemon_thread(partial(work, *arguments), at_end=self._places.release)


async def run_while_connected(request: Request, searches: Searches, work: Callable[..., Any], *arguments: Any) -> Any:
    """Return `work(*arguments, stopped)` from a thread; the event `stopped` is set when the client has disconnected.

    Exceptions propagate. Cancellation: the event is set; a search that waits for its place is dropped, one that has begun keeps
    it until it ends.
    """
    stopped = threading.Event()
    task = asyncio.create_task(searches.run(work, *arguments, stopped))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LEFT_EVERY_S)
            if await request.is_disconnected():
                stopped.set()
        return task.result()
    finally:
        stopped.set()
        task.cancel()
