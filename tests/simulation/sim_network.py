"""Network between the simulated processes: calls that are delayed, reordered, repeated, lost or cut off.

A call runs in the server's process. Its request or its reply may be lost: the caller then gets the error of an unreachable
server although the call may have had its effect. A request may also arrive twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from sim_loop import PROCESS, Process, SimLoop

from zerofleet.errors import Unavailable, ZerofleetError
from zerofleet.evaluators.base import Evaluation
from zerofleet.rpc.errors import code_of
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.streams import Delivery, GameStream, Publication

DELAY_S = 0.02  # mean of one way
SLOW_S = 1.0  # mean of a delayed message
TIMEOUT_S = 3.0


@dataclass
class Rates:
    """Probabilities per call."""

    lost: float = 0.0
    slow: float = 0.0
    repeated: float = 0.0
    cut: float = 0.0
    """Loss of a watch, per message."""


class Network:
    """Calls between processes, by the name of the server."""

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self.rates = Rates()
        self.servers: dict[str, tuple[Process, Any]] = {}
        self.partitions: dict[tuple[str, str], float] = {}
        """End of each partition, by client and server."""
        self.faults = {"lost": 0, "slow": 0, "repeated": 0, "cut": 0, "partitioned": 0}

    def serve(self, name: str, process: Process, server: Any) -> None:
        """Let `process` answer the calls to `name` from now on."""
        self.servers[name] = (process, server)

    def _drawn(self, fault: str) -> bool:
        rate = getattr(self.rates, fault)
        if not rate or self._rng.random() >= rate:
            return False
        self.faults[fault] += 1
        return True

    def _delay_s(self) -> float:
        return self._rng.expovariate(1 / (SLOW_S if self._drawn("slow") else DELAY_S))

    def _is_cut_off(self, client: Process, target: str) -> bool:
        if self.partitions.get((client.name, target), 0.0) <= self._loop.time():
            return False
        self.faults["partitioned"] += 1
        return True

    async def call(
        self, target: str, work: Callable[[Any], Awaitable[Any]], *, idempotent: bool = True, waits_s: float = 0.0
    ) -> Any:
        """Return the result of `work(server)`, run in the server's process. Raises its errors, and `Unavailable`.

        `idempotent`: the request may arrive twice. `waits_s`: time that the server may take on purpose.
        """
        client, loop = PROCESS.get(), self._loop
        reply = loop.create_future()

        def settle(result: Any, error: Exception | None) -> None:
            if not reply.done():
                reply.set_exception(error) if error is not None else reply.set_result(result)

        def answer(result: Any, error: Exception | None, delay_s: float) -> None:
            if not client.alive:
                return
            loop.call_later(delay_s, settle, result, error, context=client.context)

        away = Unavailable(f"{target} does not answer (simulated)")
        answer(None, away, TIMEOUT_S + waits_s)
        if self._is_cut_off(client, target) or self._drawn("lost"):
            return await reply
        copies = 2 if idempotent and self._drawn("repeated") else 1
        for _ in range(copies):
            loop.call_later(self._delay_s(), self._arrive, client, target, work, answer, context=loop.root.context)
        return await reply

    def _arrive(self, client: Process, target: str, work: Any, answer: Any) -> None:
        process, server = self.servers.get(target, (None, None))
        if process is None or not process.alive:
            answer(None, Unavailable(f"{target} refuses connections (simulated)"), self._delay_s())
            return

        async def serve() -> None:
            result, error = None, None
            try:
                result = await work(server)
            except Exception as failure:
                error = failure
            if not self._is_cut_off(client, target) and not self._drawn("lost"):
                answer(result, error, self._delay_s())

        def reset() -> None:
            answer(None, Unavailable(f"{target} closed the connection (simulated)"), self._delay_s())

        process.at_death.append(reset)
        task = self._loop.create_task(serve(), context=process.context)
        task.add_done_callback(lambda _: process.at_death.remove(reset), context=process.context)

    async def stream(self, target: str, begin: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Yield what the server yields, in order and late, until the connection is lost: then `Unavailable`."""
        client, loop = PROCESS.get(), self._loop
        arrived: asyncio.Queue[Any] = asyncio.Queue()
        lost = Unavailable(f"the connection to {target} was lost (simulated)")
        process, server = self.servers.get(target, (None, None))
        if process is None or not process.alive or self._is_cut_off(client, target):
            await asyncio.sleep(self._delay_s())
            raise lost
        last_s = loop.time()

        def deliver(item: Any) -> None:
            nonlocal last_s
            if client.alive:
                last_s = max(last_s, loop.time() + self._delay_s())
                loop.call_at(last_s, arrived.put_nowait, item, context=client.context)

        async def serve() -> None:
            async for item in begin(server):
                if self._drawn("cut") or self._is_cut_off(client, target):
                    break
                deliver(item)
            deliver(lost)

        task = loop.create_task(serve(), context=process.context)
        process.at_death.append(lambda: deliver(lost))
        try:
            while True:
                item = await arrived.get()
                if item is lost:
                    raise lost
                yield item
        finally:
            if process.alive:
                loop.call_soon(task.cancel, context=process.context)


class StreamHandle(GameStream):
    """Game stream of one process; the entries live in a server that survives everything."""

    def __init__(self, network: Network, handle: Any, published: Callable[[str], None]) -> None:
        self._network, self._handle, self._published = network, handle, published

    async def publish_all(self, games: list[Publication]) -> None:
        await self._network.call("stream", lambda _: self._handle.publish_all(list(games)))
        for game in games:
            self._published(game.uid)
        games.clear()

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        def work(_: Any) -> Awaitable[list[Delivery]]:
            return self._handle.consume(consumer=consumer, limit=limit, block_s=block_s)

        found: list[Delivery] = await self._network.call("stream", work, idempotent=False, waits_s=block_s)
        return found

    async def give_back(self, deliveries: Any) -> None:
        await self._network.call("stream", lambda _: self._handle.give_back(deliveries))

    async def acknowledge(self, entry_ids: Any) -> None:
        await self._network.call("stream", lambda _: self._handle.acknowledge(entry_ids))

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        await self._network.call("stream", lambda _: self._handle.dead_letter(delivery, reason=reason))

    async def stats(self) -> Any:
        return await self._network.call("stream", lambda _: self._handle.stats())

    async def dead(self, limit: int = 100) -> Any:
        return await self._network.call("stream", lambda _: self._handle.dead(limit))

    async def aclose(self) -> None:
        """Nothing is open."""


class RemoteInference:
    """Evaluator and loader of models over the network."""

    def __init__(self, network: Network, *, attempts: int = 1) -> None:
        self._network, self._attempts = network, attempts

    async def evaluate(self, batch: Any, *, version: int) -> Evaluation:
        for _ in range(self._attempts - 1):
            try:
                return await self._evaluate(batch, version)
            except Unavailable:
                await asyncio.sleep(0.1)
        return await self._evaluate(batch, version)

    async def _evaluate(self, batch: Any, version: int) -> Evaluation:
        found: Evaluation = await self._network.call("inference", lambda server: server.evaluate(batch, version))
        return found

    async def serve(self, model: str, versions: Any) -> None:
        await self._network.call("inference", lambda server: server.serve(tuple(versions)))

    async def ready(self, model: str, version: int) -> bool:
        return bool(await self._network.call("inference", lambda server: server.ready(version)))

    async def evaluations(self, model: str) -> Any:
        return await self._network.call("inference", lambda server: server.evaluations())


class _Channel:
    """Methods of a channel that the client calls besides its requests."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def get_state(self) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def channel_ready(self) -> None:
        while not (found := self._network.servers.get("gatekeeper")) or not found[0].alive:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Nothing is open."""


def _failure(error: Exception) -> grpc.aio.AioRpcError:
    code = code_of(error) or grpc.StatusCode.INTERNAL
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=str(error))


class _Watch:
    """Call of `WatchChampion`."""

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._items)
        except ZerofleetError as error:
            raise _failure(error) from error

    def cancel(self) -> None:
        """The iterator ends with its task."""


class _Stub:
    """Calls of the gatekeeper as messages in bytes, to the methods of the real servicer."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __getattr__(self, method: str) -> Any:
        async def call(request: Any, **options: Any) -> Any:
            text = request.SerializeToString()

            async def work(servicer: Any) -> Any:
                reply = await getattr(servicer, method)(type(request).FromString(text), None)
                return type(reply).FromString(reply.SerializeToString())

            try:
                return await self._network.call("gatekeeper", work)
            except Exception as error:
                raise _failure(error) from error

        return call

    def WatchChampion(self, request: Any, **options: Any) -> _Watch:
        return _Watch(self._network.stream("gatekeeper", lambda servicer: servicer.WatchChampion(request, None)))


class SimGatekeeperClient(GatekeeperClient):
    """The real client, with calls over the simulated network."""

    def __init__(self, network: Network, *, rng: random.Random) -> None:
        self.target, self._known_as = "gatekeeper", None
        self._own_metadata = ()
        self._timeout_s = 10.0
        self._rng = rng
        self._closed = False
        self._channel: Any = _Channel(network)
        self._stub: Any = _Stub(network)
