"""Clients in shared memory that break, are broken, or have no right to be there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from block_peers import GAME, HELLO, SLOT_BYTES, V1, client, file_of, first, held, layout, rounded
from fake_network import MODEL, expected_value, until

from inference_server import block_connection, doorbell
from zerofleet.contracts.shared_memory import (
    MAX_PACKET_BYTES,
    PROTOCOL,
    Hello,
    Kind,
    Request,
    doorbell_path,
)
from zerofleet.errors import (
    ConfigurationError,
    Overloaded,
    PermissionRefused,
    Unavailable,
)
from zerofleet.evaluators import shared_memory
from zerofleet.evaluators.block_link import _first_packet
from zerofleet.evaluators.transports import connected_evaluator


@pytest.mark.parametrize(
    "packet",
    [
        b"\x00\xff",
        b"[" * MAX_PACKET_BYTES,
        b"{}",
        b'"text"',
        Hello(PROTOCOL, "../model", 2, SLOT_BYTES).pack(),
        Hello(PROTOCOL, MODEL, 0, SLOT_BYTES).pack(),
        Hello(PROTOCOL, MODEL, 17, SLOT_BYTES).pack(),
        Hello(PROTOCOL, MODEL, 2, 100).pack(),
        Hello(PROTOCOL, MODEL, 2, 1 << 40).pack(),
        Hello(PROTOCOL, MODEL, 2, -64).pack(),
        HELLO.pack().replace(b": 2", b": true"),
        HELLO.pack().replace(b'"slots"', b'"spots"'),
        HELLO.pack().replace(b'"token": ""', b'"token": "\\ud800"'),
        b"x" * (64 << 10),
    ],
)
async def test_a_hello_that_is_none_is_refused_and_takes_no_memory(near, knock, packet):
    peer = knock()
    peer.socket.send(packet)
    assert (await peer.reply()).status == 3  # INVALID_ARGUMENT
    assert await peer.closed()
    await until(lambda: len(near.server.doorbell) == 0)
    assert near.server.doorbell._bytes.taken == 0


async def test_a_hello_of_another_protocol_is_told_so_whatever_else_it_holds(near, knock):
    peer = knock()
    peer.socket.send(b'{"protocol": 2, "regions": []}')
    found = await peer.reply()
    assert (found.status, "protocol 2" in found.text) == (9, True)  # FAILED_PRECONDITION
    assert await peer.closed()


async def test_a_client_of_another_release_is_refused_and_auto_uses_grpc(near, address, leaves, monkeypatch):
    monkeypatch.setattr(shared_memory, "PROTOCOL", PROTOCOL + 1)
    async with client(address) as evaluator:
        with pytest.raises(ConfigurationError, match="protocol"):
            await evaluator.evaluate(leaves, version=V1)
    async with connected_evaluator(address, GAME, transport="auto") as evaluator:
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        b"",
        Request(3, 0, 0, 1).pack(),
        Request(Kind.EVALUATE, 0, 2, 1).pack(),
        Request(Kind.CANCEL, 0, 65535, 1).pack(),
        Request(Kind.CANCEL, 0, 0, 1).pack()[:-1],
        Request(Kind.CANCEL, 0, 0, 1).pack(b"x" * 65),
        b"\x01" * (64 << 10),
    ],
)
async def test_a_packet_outside_the_protocol_disconnects_its_client_alone(near, address, peer, packet, leaves):
    async with client(address) as neighbour:
        await neighbour.connect()
        peer.socket.send(packet)
        assert await peer.closed()
        assert len((await neighbour.evaluate(leaves, version=V1)).policy) == 8
    await until(lambda: near.server.doorbell._bytes.taken == 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": 1025},
        {"rows": 2**32 - 1},
        {"packed_bytes": 1},
        {"packed_bytes": 2**32 - 1, "rows": 2**32 - 1, "max_legal": 2**32 - 1},
        {"max_legal": 10},
        {"extra_heads": 3},
        {"extra_heads": 2**32 - 1},
        {"version": 0},
    ],
)
async def test_sizes_that_are_not_the_models_are_refused_and_the_connection_goes_on(near, peer, leaves, changes):
    peer.write(leaves)
    peer.send(leaves, **changes)
    assert (await peer.reply()).status == 3
    peer.send(leaves)
    assert (await peer.reply()).status == 0


async def test_rows_that_are_no_positions_are_refused(near, peer, leaves):
    for spoil in (
        lambda states, legal: legal.__setitem__((0, 0), 9),
        lambda states, legal: legal.__setitem__((3, 0), -2),
        lambda states, legal: states.__setitem__((0, -1), 255),
    ):
        spoil(*peer.write(leaves))
        peer.send(leaves)
        assert (await peer.reply()).status == 3


async def test_a_slot_too_small_for_the_rows_is_refused(near, knock, leaves):
    peer = knock()
    await peer.greet(Hello(PROTOCOL, MODEL, 1, 64))
    peer.send(leaves)
    found = await peer.reply()
    assert (found.status, "exceed the slot" in found.text) == (3, True)
    peer.send(first(leaves, 1))
    found = await peer.reply()
    assert (found.status, "slot" in found.text) == (3, True)


async def test_actions_changed_after_they_were_checked_have_no_effect(near, address, peer, leaves, loader):
    async with client(address) as other, held(loader, other, leaves):
        _, legal = peer.write(leaves)
        peer.send(leaves)
        await until(lambda: near.waiting_rows() == 8)
        legal[:] = 32767
        loader.gate.set()
        found = await peer.reply()
    assert found.status == 0
    value = np.ndarray((8, 2), "<f4", peer.region, layout(leaves)[2] + rounded(2 * leaves.legal.size))
    np.testing.assert_array_equal(value, expected_value(leaves.states, leaves.legal, 1))


async def test_a_slot_in_use_cannot_be_used_twice(near, address, peer, leaves, loader):
    async with client(address) as other, held(loader, other, leaves):
        peer.write(leaves)
        peer.send(leaves)
        await until(lambda: near.waiting_rows() == 8)
        peer.send(leaves)
        assert await peer.closed()
        assert near.waiting_rows() == 0


async def test_no_client_can_change_the_size_of_a_region(near, knock):
    peer = knock()
    peer.socket.send(HELLO.pack())
    _, (descriptor,) = await _first_packet(peer.socket)
    for size in (0, HELLO.region_bytes * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    assert "/memfd:" in file_of(descriptor)  # without a name in any file system
    os.close(descriptor)


async def test_a_client_that_does_not_read_its_replies_is_disconnected(near, address, peer, leaves):
    async with client(address) as neighbour:
        await neighbour.connect()

        def flood() -> bool:
            with suppress(BlockingIOError):
                while True:
                    peer.send(leaves, version=99)
            return len(near.server.doorbell) == 1

        with suppress(ConnectionError):
            await until(flood)
        await until(lambda: len(near.server.doorbell) == 1)
        assert len((await neighbour.evaluate(leaves, version=V1)).policy) == 8


async def test_clients_that_come_and_go_leave_no_memory_and_no_descriptor(near, address, knock, leaves, loader):
    def held_now() -> tuple[int, int]:
        files = [file_of(int(name)) for name in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{name}").is_symlink()]  # noqa: PTH208
        return len(files), Path("/proc/self/maps").read_text().count("zerofleet-blocks")

    async with client(address) as neighbour:
        await neighbour.evaluate(leaves, version=V1)
        before = held_now()
        for _ in range(3):
            async with client(address) as evaluator:
                await evaluator.evaluate(leaves, version=V1)
            async with held(loader, neighbour, leaves):
                peer = knock()
                await peer.greet()
                peer.write(leaves)
                peer.send(leaves)
                await until(lambda: near.waiting_rows() == 8)
                peer.socket.close()
                peer.region = None
                await until(lambda: near.waiting_rows() == 0)
        await until(lambda: len(near.server.doorbell) == 1)
        await until(lambda: held_now() == before)


async def test_a_client_that_sends_no_hello_is_disconnected(near, knock, monkeypatch):
    monkeypatch.setattr(block_connection, "HELLO_S", 0.05)
    assert await knock().closed()
    await until(lambda: len(near.server.doorbell) == 0)


async def test_a_killed_client_frees_its_region_and_its_place_in_the_queue(near, address, leaves, loader):
    _, legal_at, _ = layout(leaves)
    request = Request(Kind.EVALUATE, 0, 0, 1, *leaves.states.shape, leaves.legal.shape[1], 0, 1, 10**9)
    code = f"""
import mmap, socket, sys
doorbell = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
doorbell.connect({str(doorbell_path(address))!r})
doorbell.send({HELLO.pack()!r})
_, (descriptor,), _, _ = socket.recv_fds(doorbell, 4096, 1)
region = mmap.mmap(descriptor, {HELLO.region_bytes})
region[:{leaves.states.nbytes}] = {leaves.states.tobytes()!r}
region[{legal_at}:{legal_at + leaves.legal.nbytes}] = {leaves.legal.tobytes()!r}
doorbell.send({request.pack()!r})
print("sent", flush=True)
sys.stdin.read()
"""
    async with client(address) as evaluator, held(loader, evaluator, leaves):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert await process.stdout.readline() == b"sent\n"
        await until(lambda: near.waiting_rows() == 8)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await until(lambda: near.waiting_rows() == 0)
        assert near.server.doorbell._bytes.taken == evaluator._hello.region_bytes
        assert len(near.server.doorbell) == 1


async def test_another_user_is_refused(near, address, leaves, monkeypatch):
    user = os.geteuid()
    monkeypatch.setattr(doorbell, "ROOT", user + 1)
    monkeypatch.setattr(doorbell.os, "geteuid", lambda: user + 1)
    async with client(address) as evaluator:
        with pytest.raises(Unavailable):
            await evaluator.evaluate(leaves, version=V1)


async def test_a_token_needs_the_role_that_grpc_needs(open_near, publish, address, leaves):
    publish()
    tokens = {role: f"token-of-the-{role}-role" for role in ("worker", "trainer")}
    async with open_near(tokens="\n".join(f"{role}: {token}" for role, token in tokens.items())):
        for token in (None, "token-of-nobody-at-all", tokens["trainer"]):
            async with client(address, token=token) as evaluator:
                with pytest.raises(PermissionRefused):
                    await evaluator.evaluate(leaves, version=V1)
        async with client(address, token=tokens["worker"]) as evaluator:
            assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_regions_share_a_bound_and_a_client_that_leaves_makes_room(open_near, publish, address, leaves, monkeypatch):
    publish()
    monkeypatch.setattr(shared_memory, "SLOTS", max(1, (1 << 20) // SLOT_BYTES))
    async with open_near(max_bytes_in_flight=1 << 20), client(address) as later:
        async with client(address) as evaluator:
            await evaluator.connect()
            size = later._hello.region_bytes
            wanted = f"a region of {size} bytes does not fit: regions hold {size} of {1 << 20} .*; use gRPC"
            with pytest.raises(Overloaded, match=wanted):
                await later.connect()
            async with connected_evaluator(address, GAME, transport="auto") as auto:
                assert len((await auto.evaluate(leaves, version=V1)).policy) == 8
        async with client(address, retry_s=600.0) as patient:
            assert len((await patient.evaluate(leaves, version=V1)).policy) == 8
