"""Inference servers of runs, one for each, shared by all requests of the pages to its models.

A server is in use during a request. It stays for a while after the last one, since its start takes seconds, and a player's next
move may follow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ui.catalogue import OpenRun
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.servers import KeptServer

__all__ = ["IDLE_S", "ModelServers", "ServedModel"]

IDLE_S = 600.0
"""Time after its last question at which a server is stopped."""


class ModelServers:
    """Servers by run. Used in one event loop."""

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._servers: dict[OpenRun, _Shared] = {}

    @contextlib.asynccontextmanager
    async def serving(self, run: OpenRun, version: int, *, once: bool = False) -> AsyncIterator[Evaluator]:
        """Yield an evaluator of a version of a run, whose server keeps that version to the end of the block.

        `once`: for a single request, which goes to the run's own server if that serves the version.
        Raises `ModelNotFound`, `CorruptModel`, `Unavailable`. Cancellation: a server that was started stays for its idle time.
        """
        shared = self._servers.get(run)
        if shared is None:
            shared = self._servers[run] = _Shared(run)
        shared.keep()
        shared.users += 1
        try:
            async with shared.server.serving({version}, once=once) as address:
                yield await shared.evaluator(address)
        finally:
            shared.users -= 1
            if not shared.users:
                shared.end = asyncio.create_task(self._end(run, shared))

    async def aclose(self) -> None:
        """Stop every server."""
        ended = list(self._servers.values())
        self._servers.clear()
        for shared in ended:
            shared.keep()
        await asyncio.gather(*(shared.aclose() for shared in ended))

    async def _end(self, run: OpenRun, shared: _Shared) -> None:
        await asyncio.sleep(self._idle_s)
        self._servers.pop(run, None)
        await shared.aclose()


class _Shared:
    """Server of a run with its users."""

    def __init__(self, run: OpenRun) -> None:
        self.server = KeptServer(run.paths, run.game)
        self.users = 0
        self.end: asyncio.Task[None] | None = None
        """End after the idle time; None while there are users."""
        self._game = run.game
        self._clients = contextlib.AsyncExitStack()
        self._evaluators: dict[str, Evaluator] = {}

    def keep(self) -> None:
        """Call off the end."""
        if self.end is not None:
            self.end.cancel()
            self.end = None

    async def evaluator(self, address: str) -> Evaluator:
        """Return the evaluator of an address, whose connection later questions use again."""
        if address not in self._evaluators:
            self._evaluators[address] = await self._clients.enter_async_context(evaluating(address, self._game))
        return self._evaluators[address]

    async def aclose(self) -> None:
        """Close the connections, and stop the server."""
        await self._clients.aclose()
        await self.server.aclose()


class ServedModel:
    """Evaluator of a version of a run for as long as `in_use` is entered."""

    def __init__(self, servers: ModelServers, run: OpenRun, version: int) -> None:
        self._servers = servers
        self._run = run
        self._version = version
        self._evaluator: Evaluator | None = None

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Use the run's server to the end of the block; raises as `ModelServers.serving`. Cancellation: as that."""
        async with self._servers.serving(self._run, self._version) as self._evaluator:
            yield

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`."""
        assert self._evaluator is not None  # noqa: S101 - it is in use
        return await self._evaluator.evaluate(batch, version=version)
