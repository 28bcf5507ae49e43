"""Stopping of lanes: first no new games, then interruption of every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Stop"]


class Stop:
    """Two steps: `no_new_games`, then `now`."""

    def __init__(self) -> None:
        self.no_new_games = False
        self.now = False
        self._scopes: dict[asyncio.Timeout, None] = {}  # in the order of entry

    def stop_now(self) -> None:
        """Interrupt every `interruptible` block, present and future."""
        self.no_new_games = self.now = True
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def interruptible(self) -> AsyncIterator[None]:
        """Leave the block at its next suspension once `now` is set; the caller checks `now` afterwards.

        Cancellation: passes through.
        """
        try:
            async with asyncio.timeout(0 if self.now else None) as scope:
                self._scopes[scope] = None
                try:
                    yield
                finally:
                    self._scopes.pop(scope, None)
        except TimeoutError:
            if not self.now:
                raise
