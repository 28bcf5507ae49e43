"""Calls of a client whose channel is closed: an error of their own, not the cancellation of the task that waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from zerofleet.errors import Overloaded, Unavailable, ZerofleetError
from zerofleet.rpc.calls import Patience
from zerofleet.rpc.channel_client import ChannelClient


class Client(ChannelClient):
    """Client of a method that never answers."""

    async def wait(self) -> bytes:
        """Call the method."""
        method = self._channel.unary_unary("/waiting/Forever")
        return await self.retried(lambda: method(b"", timeout=60), lambda error: ZerofleetError(str(error)), patience_s=0.0)


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[Client, asyncio.Event]]:
    """Serve the method; the event is set once a call has arrived."""
    arrived = asyncio.Event()

    async def forever(request: bytes, context: Any) -> bytes:
        arrived.set()
        await asyncio.Event().wait()
        return request

    server = grpc.aio.server()
    handlers = {"Forever": grpc.unary_unary_rpc_method_handler(forever)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("waiting", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    target = f"127.0.0.1:{port}"
    try:
        async with Client(target, grpc.aio.insecure_channel(target)) as client:
            yield client, arrived
    finally:
        await server.stop(None)


async def test_a_call_whose_channel_is_closed_is_unavailable() -> None:
    async with waiting() as (client, arrived):
        call = asyncio.create_task(client.wait())
        await arrived.wait()
        await client.aclose()
        with pytest.raises(Unavailable, match="the connection was closed during a call"):
            await call


async def test_a_call_after_the_close_is_unavailable() -> None:
    async with waiting() as (client, _):
        await client.aclose()
        with pytest.raises(Unavailable, match="the client was closed"):
            await client.wait()


async def test_a_call_whose_client_is_closed_during_the_pause_before_its_repetition_is_unavailable() -> None:
    class Closing(Patience):
        def pause_s(self, error: ZerofleetError) -> float:
            closing.append(asyncio.ensure_future(client.aclose()))
            return 0.0

    async def refused() -> bytes:
        raise grpc.aio.AioRpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.aio.Metadata(), grpc.aio.Metadata())

    closing: list[asyncio.Future[None]] = []
    async with waiting() as (client, _):
        patience = Closing(lambda error: 60.0, rng=random.Random(1))
        with pytest.raises(Unavailable, match="the client was closed"):
            await client.repeated(refused, lambda failure: Overloaded("full"), patience)
        await asyncio.gather(*closing)
    assert len(closing) == 1


async def test_the_last_failure_of_a_call_whose_client_is_closed_meanwhile_is_its_error() -> None:
    async with waiting() as (client, _):
        await client.aclose()
        error = Unavailable("away")
        assert await client.explained(error) is error


async def test_a_cancelled_call_is_cancelled() -> None:
    async with waiting() as (client, arrived):
        call = asyncio.create_task(client.wait())
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.wait()
