"""Requests that never arrive: the memory of a server under them is bounded, they end, and other peers are served."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from fake_network import until
from raw_http2 import HEADERS, PREFACE, call, settings
from withheld_bodies import METHODS, WithheldBodies, grown_mib, server_process

from zerofleet.rpc.security.bounded_calls import SMALL_BYTES, BoundedCalls
from zerofleet.rpc.security.limits import UNREAD_BYTES, server_limits

ECHO, STAY = "/any.Service/Echo", "/any.Service/Stay"
MESSAGE_BYTES = 64 << 10
MIB = 1 << 20
SLACK_MIB = 32
"""Of threads, connections and calls; a server without calls varies by a few MiB."""


class Echo:
    """A server with two methods and these bounds: one answers with its request, one stays."""

    def __init__(self, **bounds) -> None:
        self.refused: Counter[str] = Counter()
        bounds = {"bytes_in_flight": 64 * MESSAGE_BYTES, "calls": 64, "long_lived": {STAY: 4}, **bounds}
        self.bounds = BoundedCalls(
            message_bytes=MESSAGE_BYTES, on_refused=lambda reason: self.refused.update([reason]), **bounds
        )
        self.let_go = asyncio.Event()
        self.here = 0

    async def echo(self, request: bytes, context: object) -> bytes:
        return request

    async def stay(self, request: bytes, context: object) -> AsyncIterator[bytes]:
        self.here += 1
        yield b"here"
        await self.let_go.wait()

    @property
    def held_bytes(self) -> int:
        return self.bounds._calls.bytes.taken

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        options = [
            ("grpc.so_reuseport", 0),
            *server_limits(receive_bytes=MESSAGE_BYTES, send_bytes=MESSAGE_BYTES, connections=64),
        ]
        server = grpc.aio.server(interceptors=[self.bounds], options=options, maximum_concurrent_rpcs=self.bounds.most_calls)
        methods = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Stay": grpc.unary_stream_rpc_method_handler(self.stay),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", methods)])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            self.let_go.set()
            await server.stop(None)


async def code_of(start: object) -> grpc.StatusCode:
    return await start.code()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ModelInfer", "Check", "Watch"])
async def test_bodies_larger_than_any_request_for_the_served_models_take_no_memory(tmp_path, method):
    """32 bodies of 8 MiB without their last byte: 191 MiB and more before the limit followed from the models."""
    grown, _, _ = await grown_mib(METHODS[method], 32, 8 * MIB, tmp_path)
    assert grown < SLACK_MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "most_mib"),
    [
        ("ModelInfer", 64 / 2),  # the share of one address of the bytes in flight
        ("Check", 8 * 8 / 2),  # ... of the eight small requests that are read at once
        ("Watch", 8 * 8 / 2),
    ],
)
async def test_withheld_bodies_of_the_largest_message_take_the_budget_of_one_address(tmp_path, method, most_mib):
    """128 bodies of 8 MiB, at a server that accepts such: 1,032 MiB before there was a budget."""
    budget = {"max_message_bytes": str(8 * MIB), "max_bytes_in_flight": str(64 * MIB)}
    grown, _, _ = await grown_mib(METHODS[method], 128, 8 * MIB, tmp_path, **budget)
    assert grown < most_mib + SLACK_MIB


async def test_a_request_that_does_not_arrive_ends_and_frees_its_memory():
    echo = Echo(read_s=0.05)
    async with echo.served() as address, WithheldBodies.open(address, ECHO, 10, MESSAGE_BYTES) as bodies:
        await bodies.send_all()
        assert bodies.ended == {"call": 10}
        assert echo.refused == {"slow": 10}
        assert echo.held_bytes == 0
        async with grpc.aio.insecure_channel(address) as channel:
            assert await channel.unary_unary(ECHO)(b"x" * 1000, timeout=30) == b"x" * 1000


async def test_a_peer_that_withholds_all_of_its_requests_leaves_others_room():
    """The hostile peer has another address of this machine."""
    echo = Echo(bytes_in_flight=8 * MESSAGE_BYTES)
    async with echo.served() as address:
        host, _, port = address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        writer.write(PREFACE + settings(None) + b"".join(call(stream, ECHO, None) for stream in range(1, 200, 2)))
        await until(lambda: echo.refused["memory"] + echo.refused["calls"] == 96)
        assert echo.held_bytes == 4 * MESSAGE_BYTES
        async with grpc.aio.insecure_channel(address) as channel:
            assert await channel.unary_unary(ECHO)(b"honest", timeout=30) == b"honest"
        writer.transport.abort()
        await until(lambda: echo.held_bytes == 0)


async def test_a_request_counts_with_its_size_until_it_is_answered():
    echo = Echo()
    async with echo.served() as address, grpc.aio.insecure_channel(address) as channel:
        answers = await asyncio.gather(*(channel.unary_unary(ECHO)(b"x" * 5000, timeout=30) for _ in range(20)))
        assert {len(answer) for answer in answers} == {5000}
        await until(lambda: echo.held_bytes == 0)
        assert echo.bounds._calls.places.taken == 0


async def test_calls_without_end_do_not_take_the_places_of_others():
    echo = Echo(calls=2)
    async with echo.served() as address, grpc.aio.insecure_channel(address) as channel:
        stays = [channel.unary_stream(STAY)(b"") for _ in range(2)]
        for stay in stays:
            assert await stay.read() == b"here"
        further = channel.unary_stream(STAY)(b"")
        assert await code_of(further) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await further.details() == "2 calls are in progress, the share of this address; try again later"
        assert await channel.unary_unary(ECHO)(b"short", timeout=30) == b"short"
        stays[0].cancel()
        await until(lambda: echo.bounds._long_lived[STAY].places.taken == 1)
        again = channel.unary_stream(STAY)(b"")
        assert await again.read() == b"here"


async def test_a_long_request_of_a_call_without_end_is_invalid():
    echo = Echo()
    async with echo.served() as address, grpc.aio.insecure_channel(address) as channel:
        stay = channel.unary_stream(STAY)(b"x" * (SMALL_BYTES + 1))
        assert await code_of(stay) is grpc.StatusCode.INVALID_ARGUMENT
        assert echo.here == 0


async def test_a_call_without_a_message_is_invalid():
    echo = Echo()
    async with echo.served() as address, grpc.aio.insecure_channel(address) as channel:
        empty = channel.stream_unary(ECHO)(iter(()))
        assert await code_of(empty) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_call_that_is_refused_unread_has_sent_no_more_than_a_window():
    echo = Echo(bytes_in_flight=2 * MESSAGE_BYTES, read_s=60.0)
    async with echo.served() as address, WithheldBodies.open(address, ECHO, 40, MESSAGE_BYTES) as bodies:
        await bodies.send_all()
        assert bodies.ended == {"call": 39}
        assert bodies.sent_bytes <= MESSAGE_BYTES + 5 + 40 * max(UNREAD_BYTES, 65_535)


@pytest.mark.slow
async def test_a_server_ends_withheld_health_checks_and_answers_other_addresses(tmp_path):
    async with server_process(tmp_path) as (address, _), WithheldBodies.open(address, METHODS["Check"], 200, 1000) as bodies:
        host, _, port = address.rpartition(":")
        await bodies.send_all()
        assert bodies.ended["call"] >= 190
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        writer.write(PREFACE + settings(None) + call(1, METHODS["Check"], b""))
        async with asyncio.timeout(30):
            while (head := await reader.readexactly(9))[3] != HEADERS:
                await reader.readexactly(int.from_bytes(head[:3], "big"))
        writer.transport.abort()
