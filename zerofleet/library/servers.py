"""The inference server of an opened run: one that is started once and kept, or for single requests the run's own."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Set
from contextlib import AsyncExitStack, asynccontextmanager

from games.core import Game
from zerofleet.library import background
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.borrowed import OwnServer, live_server, own_server, stored_versions, verify

__all__ = ["MOST_VERSIONS", "KeptServer"]

MOST_VERSIONS = 16
"""Versions that the server serves at a time."""


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
        self._in_use = Counter[int]()
        """Users of each version."""

    @property
    def is_started(self) -> bool:
        """Whether there is a server of its own."""
        return self._own is not None

    @asynccontextmanager
    async def serving(self, versions: Set[int], *, once: bool = False) -> AsyncIterator[str]:
        """Yield the address of a server of those versions; one that was started keeps them to the end of the block.

        That one keeps the `MOST_VERSIONS` asked last and those in use, as long as they are stored or it has loaded them; one
        that died is replaced. `once`: for a single request, which goes to the run's own server if that has versions which the
        other lacks.
        Raises `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: a server that was started stays.
        """
        address = await self._address(versions, once=once)
        is_own = self._own is not None and address == self._own.address
        users = Counter(versions if is_own else ())
        self._in_use += users
        try:
            yield address
        finally:
            self._in_use -= users

    async def _address(self, versions: Set[int], *, once: bool) -> str:
        async with self._lock:
            if self._own is not None and not await asyncio.to_thread(lambda own: own.is_listening, self._own):
                await self._end()
            in_use = set(self._in_use)
            asked, wanted = self._served, versions | in_use
            if self._own is None or not wanted <= set(self._served):
                await verify(self._paths, self._game, sorted(versions - set(self._served)))
                if once and (live := await live_server(self._paths, self._game, sorted(versions))):
                    return live
                # The gatekeeper may have deleted versions that were asked before.
                available = {*self._served, *await asyncio.to_thread(stored_versions, self._paths, self._game)}
                asked, wanted = [version for version in asked if version in available], versions | (in_use & available)
            others = [version for version in asked if version not in wanted]
            others = others[max(0, len(others) + len(wanted) - MOST_VERSIONS) :]
            if self._own is None:
                started = own_server(self._paths, self._game, max_versions=MOST_VERSIONS)
                self._own = await self._stack.enter_async_context(started)
                background.at_exit(self, self.aclose)
            if {*others, *wanted} != set(self._served):
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
