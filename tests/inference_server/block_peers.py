"""Clients of a server in shared memory: the usual one, and one that sends what a test wants."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
from fake_network import MODEL, FakeLoader

import games
from zerofleet.contracts.shared_memory import (
    MAX_PACKET_BYTES,
    PROTOCOL,
    Hello,
    Kind,
    Reply,
    Request,
    doorbell_path,
    inputs,
    slot_bytes_of,
)
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.block_link import _first_packet, _mapped
from zerofleet.evaluators.shared_memory import SharedMemoryEvaluator
from zerofleet.evaluators.transports import connected_evaluator

GAME = games.make("tic_tac_toe")
V1 = ModelVersion(1)
SLOT_BYTES = slot_bytes_of(GAME.spec())
HELLO = Hello(PROTOCOL, MODEL, 2, SLOT_BYTES)


def client(address: str, **settings) -> SharedMemoryEvaluator:
    return SharedMemoryEvaluator(address, GAME, **{"retry_s": 0.0, "timeout_s": 60.0, **settings})


def layout(batch: LeafBatch) -> tuple[int, int, int]:
    """Return the offsets of states, legal actions and outputs in the first slot."""
    return 0, rounded(batch.states.nbytes), rounded(batch.states.nbytes) + rounded(batch.legal.nbytes)


def file_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def rounded(size: int) -> int:
    return (size + 63) // 64 * 64


def first(batch: LeafBatch, rows: int) -> LeafBatch:
    return LeafBatch(batch.states[:rows], batch.legal[:rows])


async def entered(loader: FakeLoader) -> None:
    """Wait until the device is inside a batch."""
    assert await asyncio.to_thread(loader.entered.wait, 60)


@asynccontextmanager
async def held(loader: FakeLoader, evaluator: SharedMemoryEvaluator, batch: LeafBatch) -> AsyncIterator[asyncio.Task]:
    """Hold the device inside a first request, whose task it yields; let it go at the end."""
    loader.gate.clear()
    loader.entered.clear()
    task = asyncio.create_task(evaluator.evaluate(first(batch, 1), version=V1))
    try:
        await entered(loader)
        yield task
    finally:
        loader.gate.set()
        await asyncio.wait([task])


def connected(address: str, *, timeout_s: float = 60.0):
    return connected_evaluator(address, GAME, transport="auto", retry_s=0.0, timeout_s=timeout_s)


class Peer:
    """A client that sends what a test wants."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.socket.connect(str(doorbell_path(address)))
        self.region = None

    async def greet(self, hello: Hello = HELLO) -> None:
        self.socket.send(hello.pack())
        self.region = _mapped(*await _first_packet(self.socket), hello)

    def write(self, batch: LeafBatch, slot: int = 0) -> tuple[np.ndarray, np.ndarray]:
        shape = (*batch.states.shape, batch.legal.shape[1])
        states, legal, _ = inputs(self.region, slot * SLOT_BYTES, shape, end=(slot + 1) * SLOT_BYTES)
        states[:], legal[:] = batch.states, batch.legal
        return states, legal

    def send(self, batch: LeafBatch, *, slot: int = 0, **changes: int) -> None:
        fields = {"rows": len(batch), "packed_bytes": batch.states.shape[1], "max_legal": batch.legal.shape[1]}
        fields |= {"version": 1, "timeout_us": 60_000_000, **changes}
        self.socket.send(Request(Kind.EVALUATE, 0, slot, 7, **fields).pack())

    async def reply(self) -> Reply:
        async with asyncio.timeout(60):
            return Reply.unpack(await asyncio.get_running_loop().sock_recv(self.socket, MAX_PACKET_BYTES))

    async def closed(self) -> bool:
        """Wait until the server has closed the connection, whatever it sent before."""
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                while await asyncio.get_running_loop().sock_recv(self.socket, MAX_PACKET_BYTES):
                    pass
        return True
