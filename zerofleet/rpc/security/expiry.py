"""End of calls that hold a place for too long, from outside their handlers.

A read that is cancelled would leave grpc a buffer without an owner. An aborted call ends its own read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc

__all__ = ["Expiries"]


class Expiries:
    """Timers of the calls of one server."""

    def __init__(self) -> None:
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, context: Any, limit_s: float, text: str, on_expired: Callable[[], None]) -> asyncio.TimerHandle:
        """Abort a call with RESOURCE_EXHAUSTED after `limit_s`, unless the returned timer is cancelled before."""
        return asyncio.get_running_loop().call_later(limit_s, self._expire, context, text, on_expired)

    def end(self, context: Any, code: grpc.StatusCode, text: str) -> None:
        """Abort a call soon; that of a client that reads nothing ends with its connection."""
        task = asyncio.get_running_loop().create_task(_abort(context, code, text))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _expire(self, context: Any, text: str, on_expired: Callable[[], None]) -> None:
        on_expired()
        self.end(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> None:
    """Abort a call, which may just have ended by itself."""
    with suppress(Exception):
        await context.abort(code, text)
