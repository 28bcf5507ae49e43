"""Inference servers for tables: one for each run, shared by its tables and stopped with the last of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from ui.catalogue import OpenRun
from zerofleet.library.servers import KeptServer

__all__ = ["ModelServers"]


class ModelServers:
    """Servers by run. Used in one event loop."""

    def __init__(self) -> None:
        self._servers: dict[OpenRun, KeptServer] = {}
        self._users: dict[OpenRun, Counter[int]] = {}
        """Users of each version by run."""

    @contextlib.asynccontextmanager
    async def serving(self, run: OpenRun, version: int, *, once: bool = False) -> AsyncIterator[str]:
        """Yield the address of an inference server that serves a version of a run, as long as it is used.

        `once`: for a single request, which goes to the run's own server if that serves the version.
        Raises `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: a server without another user is stopped.
        """
        server = self._servers.setdefault(run, KeptServer(run.paths, run.game))
        users = self._users.setdefault(run, Counter())
        users[version] += 1
        try:
            yield await server.address({version}, in_use=set(+users), once=once)
        finally:
            users[version] -= 1
            if not users.total():
                del self._users[run], self._servers[run]
                await server.aclose()
