"""The inference server of an opened run: the run's own while it is up, else one that is started once and kept."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Set
from contextlib import AsyncExitStack

from games.core import Game
from zerofleet.library import background
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.borrowed import OwnServer, live_server, own_server

__all__ = ["MOST_VERSIONS", "KeptServer"]

MOST_VERSIONS = 16
"""Versions that an inference server serves at a time (`max_versions` by default)."""


class KeptServer:
    """Used in the library's event loop alone. Open again after `aclose`, at the next question.

    A forked process starts a server of its own: the parent's stays with the parent, which chooses its versions.
    """

    def __init__(self, paths: RunPaths, game: Game) -> None:
        self._paths = paths
        self._game = game
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._own: OwnServer | None = None
        self._served: list[int] = []
        """Versions that the own server serves, the least recently asked first."""

    @property
    def is_started(self) -> bool:
        """Whether there is a server of its own."""
        return self._own is not None

    async def address(self, versions: Set[int], *, in_use: Set[int] = frozenset()) -> str:
        """Return the address of a server of those versions and, where one was started, of those `in_use`.

        That one keeps the `MOST_VERSIONS` asked last; one that died is replaced. Raises `ModelNotFound`, `CorruptModel`,
        `Unavailable`. Cancellation: a server that was started stays.
        """
        async with self._lock:
            wanted = versions | in_use
            others = [version for version in self._served if version not in wanted]
            if self._own is not None and not await asyncio.to_thread(lambda own: own.is_listening, self._own):
                await self._end()
            if self._own is None or not wanted <= set(self._served):
                if live := await live_server(self._paths, self._game, sorted(versions)):
                    return live
                if self._own is None:
                    self._own = await self._stack.enter_async_context(own_server(self._paths, self._game))
                    background.at_exit(self, self.aclose)
                others = others[max(0, len(others) + len(wanted) - MOST_VERSIONS) :]
                await self._own.serve(sorted({*others, *wanted}))
            self._served = [*others, *sorted(wanted)]
            return self._own.address

    async def aclose(self) -> None:
        """End the server that was started, if there is one. Cancellation: it ends with the process."""
        async with self._lock:
            await self._end()

    async def _end(self) -> None:
        background.not_at_exit(self)
        self._own, self._served = None, []
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    def _leave_to_parent(self) -> None:
        """Forget the server in a forked process, without the end of the stack, which would stop it."""
        _of_parents.append(self._stack)
        self._begin()


_all: weakref.WeakSet[KeptServer] = weakref.WeakSet()
_of_parents: list[AsyncExitStack] = []
"""Those of the processes from which this one was forked; held, since a collected one would end the parent's server."""


def _after_fork() -> None:
    for server in _all:
        server._leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
