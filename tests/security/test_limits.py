"""The bound on calls of one connection is that connection's alone: its surplus waits, others are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from zerofleet.rpc.security.limits import MAX_STREAMS, server_limits

STAY, PASS = "/any.Service/Stay", "/any.Service/Pass"
SURPLUS = 100
OWN = [("grpc.use_local_subchannel_pool", 1)]  # each channel has a connection of its own


class Stays:
    """A call that stays until it is let go, and one that does not; `most` stayed at once."""

    def __init__(self) -> None:
        self.here = self.most = 0
        self.half, self.full, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stay(self, request: bytes, context: object) -> bytes:
        self.here += 1
        self.most = max(self.most, self.here)
        if self.here == MAX_STREAMS // 2:
            self.half.set()
        if self.here == MAX_STREAMS:
            self.full.set()
        await self.let_go.wait()
        self.here -= 1
        return b"stayed"

    async def go(self, request: bytes, context: object) -> bytes:
        return b"passed"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        limits = server_limits(receive_bytes=1 << 10, send_bytes=1 << 10, connections=64)
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *limits])
        handlers = {"Stay": self.stay, "Pass": self.go}
        methods = {name: grpc.unary_unary_rpc_method_handler(handler) for name, handler in handlers.items()}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", methods)])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


@pytest.mark.slow
async def test_calls_of_one_connection_beyond_the_limit_wait_and_other_connections_are_answered():
    stays = Stays()
    async with (
        stays.served() as address,
        grpc.aio.insecure_channel(address, options=OWN) as greedy,
        grpc.aio.insecure_channel(address, options=OWN) as other,
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
    ):

        async def stay() -> bytes:
            while True:
                try:
                    return await greedy.unary_unary(STAY)(b"")
                except grpc.aio.AioRpcError as failure:
                    # A place that the client knows to be free and the server not yet; our clients try again as well.
                    if failure.code() is not grpc.StatusCode.UNAVAILABLE or not stays.let_go.is_set():
                        raise

        # In two parts: gRPC itself cuts calls off when about a thousand come before the server takes any on.
        tasks = [group.create_task(stay()) for _ in range(MAX_STREAMS // 2)]
        await stays.half.wait()
        tasks += [group.create_task(stay()) for _ in range(MAX_STREAMS // 2 + SURPLUS)]
        await stays.full.wait()
        for _ in range(SURPLUS):  # more rounds than a surplus call needs to arrive
            assert await other.unary_unary(PASS)(b"") == b"passed"
        assert (stays.here, stays.most) == (MAX_STREAMS, MAX_STREAMS)
        stays.let_go.set()
    assert [task.result() for task in tasks] == [b"stayed"] * (MAX_STREAMS + SURPLUS)
    assert stays.most == MAX_STREAMS
