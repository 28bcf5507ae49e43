"""A server that comes back at another address of its name, as a container or pod does, is found within seconds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from zerofleet.rpc.channel_options import CHANNEL_OPTIONS
from zerofleet.rpc.channels import open_channel
from zerofleet.rpc.inference_channels import open_inference_channel

METHOD = "zerofleet.test.Places/Where"
WITHIN_S = 20.0  # grpc by itself waits 30 s between two look-ups
A_RECORD = 1
HEADER_BYTES = 12


class Names(asyncio.DatagramProtocol):
    """DNS server that answers every question with one IPv4 address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        end = data.index(b"\0", HEADER_BYTES) + 5  # name, type, class
        (kind,) = struct.unpack(">H", data[end - 4 : end - 2])
        answer = struct.pack(">HHHIH", 0xC00C, A_RECORD, 1, 0, 4) + socket.inet_aton(self.address) if kind == A_RECORD else b""
        header = data[:2] + struct.pack(">HHHHH", 0x8580, 1, 1 if answer else 0, 0, 0)
        self._transport.sendto(header + data[HEADER_BYTES:end] + answer, addr)


@contextlib.asynccontextmanager
async def serving(host: str, port: int = 0) -> AsyncIterator[int]:
    """Yield the port of a server that answers with its host."""

    async def where(_request: bytes, _context: object) -> bytes:
        return host.encode()

    server = grpc.aio.server()
    service, _, method = METHOD.partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(where)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port(f"{host}:{port}")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    "open_", [lambda target: open_channel(target, CHANNEL_OPTIONS), open_inference_channel], ids=["gatekeeper", "inference"]
)
async def test_a_server_that_has_moved_is_found_under_its_name(open_: Callable[[str], grpc.aio.Channel]) -> None:
    transport, names = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Names("127.0.0.2"), local_addr=("127.0.0.1", 0)
    )
    place = transport.get_extra_info("sockname")
    try:
        async with contextlib.AsyncExitStack() as stack:
            async with serving("127.0.0.2") as port:
                channel = await stack.enter_async_context(open_(f"dns://127.0.0.1:{place[1]}/server.test:{port}"))
                call = channel.unary_unary(f"/{METHOD}")
                assert await call(b"", wait_for_ready=True, timeout=WITHIN_S) == b"127.0.0.2"
            names.address = "127.0.0.3"
            async with serving("127.0.0.3", port):
                assert await call(b"", wait_for_ready=True, timeout=WITHIN_S) == b"127.0.0.3"
    finally:
        transport.close()
