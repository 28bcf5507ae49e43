"""End of calls that hold a place for too long, from outside their handlers.

A read that is cancelled would leave grpc a buffer without an owner. An aborted call ends its own read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import grpc

__all__ = ["Expiries", "Expiry"]


class Expiry:
    """Limit of one call."""

    __slots__ = ("_timer", "over")

    def __init__(self, limit_s: float, expire: Callable[[Expiry], None]) -> None:
        self.over = False
        self._timer = asyncio.get_running_loop().call_later(limit_s, expire, self)

    def cancel(self) -> None:
        """Let the call go on, also where the time is just over: after a freeze the message may arrive in the same moment."""
        self.over = True
        self._timer.cancel()


class Expiries:
    """Timers of the calls of one server."""

    def __init__(self) -> None:
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, context: Any, limit_s: float, text: str, on_expired: Callable[[], None]) -> Expiry:
        """Abort a call with RESOURCE_EXHAUSTED after `limit_s`, unless the returned limit is cancelled before."""

        async def end_late(expiry: Expiry) -> None:
            if not expiry.over:
                on_expired()
                await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)

        return Expiry(limit_s, lambda expiry: self._start(end_late(expiry)))

    def end(self, context: Any, code: grpc.StatusCode, text: str) -> None:
        """Abort a call soon; that of a client that reads nothing ends with its connection."""
        self._start(_abort(context, code, text))

    def _start(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> None:
    """Abort a call, which may just have ended by itself."""
    with suppress(Exception):
        await context.abort(code, text)
