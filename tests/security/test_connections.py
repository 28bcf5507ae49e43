"""Connections of a gRPC server: no address holds all places, calls beyond the share are refused, and the surplus is closed."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from zerofleet.rpc.security import connections as module
from zerofleet.rpc.security.bounded_calls import BoundedCalls
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.limits import server_limits

PEER = "/any.Service/Peer"
PLACES = 8
OWN = [("grpc.use_local_subchannel_pool", 1)]  # each channel has a connection of its own
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture(autouse=True)
def many_looks(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.01)


class Counted:
    """A server that answers with the name of the peer, and the connections to it."""

    def __init__(self) -> None:
        self.refused = self.open = 0
        self.connections = Connections(PLACES, on_refused=self._refuse, on_count=self._count)
        self.address = ""

    def _refuse(self) -> None:
        self.refused += 1

    def _count(self, count: int) -> None:
        self.open = count

    @asynccontextmanager
    async def served(self, address: str = "127.0.0.1:0") -> AsyncIterator[Counted]:
        async def peer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return context.peer().encode()

        bounds = BoundedCalls(
            message_bytes=1 << 10, bytes_in_flight=1 << 20, calls=64, long_lived={}, connections=self.connections
        )
        limits = server_limits(receive_bytes=1 << 10, send_bytes=1 << 10, connections=self.connections.accepted_by_grpc)
        server = grpc.aio.server(interceptors=[bounds], options=[("grpc.so_reuseport", 0), *limits])
        handler = grpc.method_handlers_generic_handler("any.Service", {"Peer": grpc.unary_unary_rpc_method_handler(peer)})
        server.add_generic_rpc_handlers([handler])
        port = server.add_insecure_port(address)
        self.address = address if address.startswith("unix") else f"{address.rpartition(':')[0]}:{port}"
        await server.start()
        followed = asyncio.create_task(self.connections.follow(self.address))
        try:
            yield self
        finally:
            followed.cancel()
            await server.stop(None)

    async def until_open(self, count: int, *, refused: int = 0) -> None:
        """Wait until so many connections are left, and at least so many were refused: some may not be accepted yet."""
        async with asyncio.timeout(30):
            while self.open != count or self.refused < refused:  # noqa: ASYNC110 - looks of the server
                await asyncio.sleep(0.01)


def connect(stack: ExitStack, address: str, count: int, *, source: str) -> list[socket.socket]:
    """Connect and send nothing."""
    host, _, port = address.rpartition(":")
    made = []
    for _ in range(count):
        made.append(stack.enter_context(socket.socket()))
        made[-1].bind((source, 0))
        made[-1].connect((host, int(port)))
    return made


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def is_bindable(host: str) -> bool:
    """Return whether the machine has this address of IPv6, and one socket for both kinds of addresses."""
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return socket.has_dualstack_ipv6()


async def test_an_address_keeps_half_of_the_places_and_another_one_is_served():
    with ExitStack() as stack:
        async with Counted().served() as server:
            connect(stack, server.address, PLACES, source="127.0.0.2")
            await server.until_open(PLACES // 2, refused=PLACES // 2)
            async with grpc.aio.insecure_channel(server.address, options=OWN) as channel:
                assert (await channel.unary_unary(PEER)(b"", timeout=30)).startswith(b"ipv4:127.0.0.1:")
                await server.until_open(PLACES // 2 + 1)
            assert server.refused == PLACES // 2


async def test_a_call_beyond_the_share_of_its_address_is_refused_until_others_of_the_address_leave():
    with ExitStack() as stack:
        async with Counted().served() as server, grpc.aio.insecure_channel(server.address, options=OWN) as channel:
            held = connect(stack, server.address, PLACES // 2, source="127.0.0.1")
            await server.until_open(PLACES // 2)
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await channel.unary_unary(PEER)(b"", timeout=30)
            assert refusal.value.code() is EXHAUSTED
            assert refusal.value.details() == (
                "the connections of this address are more than its share of 8; use fewer, or try again later"
            )
            assert server.refused == 1
            held[0].close()
            await server.until_open(PLACES // 2 - 1)  # the refused one is closed as well
            assert (await channel.unary_unary(PEER)(b"", wait_for_ready=True, timeout=30)).startswith(b"ipv4:127.0.0.1:")


async def test_a_place_is_taken_by_the_first_call_without_waiting_for_a_look(monkeypatch):
    server = Counted()
    monkeypatch.setattr(server.connections, "look", lambda: None)
    codes = []
    async with server.served():
        for _ in range(PLACES // 2 + 1):
            async with grpc.aio.insecure_channel(server.address, options=OWN) as channel:
                codes.append(await channel.unary_unary(PEER)(b"", timeout=30).code())
    assert codes == [grpc.StatusCode.OK] * (PLACES // 2) + [EXHAUSTED]


async def test_many_calls_of_one_connection_are_one_place():
    async with Counted().served() as server, grpc.aio.insecure_channel(server.address, options=OWN) as channel:
        for _ in range(3 * PLACES):
            await channel.unary_unary(PEER)(b"", timeout=30)
        assert server.refused == 0


@pytest.mark.parametrize("address", ["[::]:0", "127.0.0.1:0"])
async def test_a_connection_is_one_place_whether_a_call_or_a_look_finds_it(address):
    hosts = ["127.0.0.1", "[::1]"] if address == "[::]:0" and is_bindable("::1") else ["127.0.0.1"]
    async with Counted().served(address) as server:
        port = server.address.rpartition(":")[2]
        for host in hosts:
            async with grpc.aio.insecure_channel(f"{host}:{port}", options=OWN) as channel:
                await channel.unary_unary(PEER)(b"", timeout=30)
                counted = set(server.connections._counted)
                server.connections.look()
                assert server.connections._counted == counted
                assert server.open == 1
                await channel.unary_unary(PEER)(b"", timeout=30)
                assert server.connections._places.taken == 1
            await server.until_open(0)
            assert server.connections._places.taken == 0


async def test_connections_of_a_unix_socket_have_no_share(tmp_path):
    address = f"unix:{tmp_path}/socket"
    with ExitStack() as stack:
        async with Counted().served(address):
            for _ in range(PLACES - 1):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(tmp_path / "socket"))
            async with grpc.aio.insecure_channel(address, options=OWN) as channel:
                assert await channel.unary_unary(PEER)(b"", timeout=30).code() is grpc.StatusCode.OK


async def test_a_look_leaves_other_sockets_of_the_process_alone():
    with socket.create_server(("127.0.0.1", 0)) as other, ExitStack() as stack:
        mine = connect(stack, f"127.0.0.1:{other.getsockname()[1]}", 2 * PLACES, source="127.0.0.2")
        theirs = [stack.enter_context(other.accept()[0]) for _ in mine]
        async with Counted().served() as server:
            connect(stack, server.address, PLACES, source="127.0.0.2")
            await server.until_open(PLACES // 2)
            before = descriptors()
            for _ in range(10):
                server.connections.look()
            assert descriptors() <= before
        for ours, its in zip(mine, theirs, strict=True):
            its.sendall(b"x")
            assert ours.recv(1) == b"x"


async def test_a_look_without_a_free_descriptor_is_reported_and_repeated(monkeypatch):
    real, failures = os.listdir, [OSError(24, "Too many open files")]

    def listing(place):
        if failures:
            raise failures.pop()
        return real(place)

    with capture_logs() as logs, ExitStack() as stack:
        monkeypatch.setattr(module.os, "listdir", listing)
        async with Counted().served() as server:
            connect(stack, server.address, PLACES, source="127.0.0.2")
            await server.until_open(PLACES // 2)
    assert [line["event"] for line in logs] == ["connections.not_counted"]


@pytest.mark.parametrize(
    ("limit", "places"),
    [
        (1024, 341),  # of a process that may have no more, and needs 512 for others: (1024 - 512) / 1.5
        (2012, 1000),
        (resource.RLIM_INFINITY, 1000),
    ],
)
def test_places_are_as_many_as_the_process_may_have_descriptors_for(monkeypatch, limit, places):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    with capture_logs() as logs:
        connections = Connections(1000)
    assert connections.accepted_by_grpc == int(places * 1.5)
    assert [line["event"] for line in logs] == (["connections.limited_by_descriptors"] if places < 1000 else [])
