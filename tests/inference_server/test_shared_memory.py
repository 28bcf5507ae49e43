"""Blocks in shared memory: a server and its clients on one host, over real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from fake_network import ACTIONS, MODEL, FakeLoader, Wire, expected_value, until
from structlog.testing import capture_logs

import games
from inference_server import block_connection, doorbell
from inference_server.block_connection import BlockConnection
from zerofleet.contracts.naming import MAX_REQUEST_ROWS
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.shared_memory import (
    MAX_PACKET_BYTES,
    PROTOCOL,
    Hello,
    Kind,
    OutputShape,
    Reply,
    Request,
    doorbell_path,
    inputs,
    rows_in,
    slot_bytes_of,
)
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    Unavailable,
    ZerofleetError,
)
from zerofleet.evaluators import block_link, shared_memory, transports
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.block_link import BlockLink, _first_packet, _mapped
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.shared_memory import SharedMemoryEvaluator
from zerofleet.evaluators.transports import NearestEvaluator, connected_evaluator
from zerofleet.telemetry import metrics
from zerofleet.testing import EvaluatorContract

GAME = games.make("tic_tac_toe")
V1 = ModelVersion(1)
SLOT_BYTES = slot_bytes_of(GAME.spec())
HELLO = Hello(PROTOCOL, MODEL, 2, SLOT_BYTES)


@pytest.fixture
def address() -> Iterator[str]:
    """An address for a server, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="zf-") as directory:
        yield f"unix:{directory}/inference.sock"


@pytest.fixture
def open_near(open_wire, address) -> Callable[..., AsyncIterator[Wire]]:
    """A context manager of a server of version 1 at `address`."""

    @asynccontextmanager
    async def near(**settings) -> AsyncIterator[Wire]:
        async with open_wire(address=address, **settings) as wire:
            await wire.server.plane.registry.serve(MODEL, [1])
            yield wire

    return near


@pytest.fixture
async def near(open_near, publish) -> AsyncIterator[Wire]:
    publish("opponents", "plies_left")
    async with open_near() as wire:
        yield wire


@pytest.fixture
def leaves(positions) -> LeafBatch:
    states, legal = positions
    return LeafBatch(states[:8].copy(), legal[:8].copy())


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


def connected(address: str):
    return connected_evaluator(address, GAME, transport="auto", retry_s=0.0, timeout_s=60.0)


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


@pytest.fixture
def knock(address) -> Iterator[Callable[[], Peer]]:
    """Connect a peer to the server, until the end of the test."""
    peers = []

    def connect() -> Peer:
        peers.append(Peer(address))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.socket.close()


@pytest.fixture
async def peer(near, knock) -> Peer:
    peer = knock()
    await peer.greet()
    return peer


class TestContract(EvaluatorContract):
    extra_heads = 2
    missing = ModelVersion(99)

    @pytest.fixture
    async def evaluator(self, near, address) -> AsyncIterator[SharedMemoryEvaluator]:
        async with client(address) as evaluator:
            yield evaluator


async def test_answers_equal_those_over_grpc_and_name_their_version(near, address, leaves):
    batch = LeafBatch(leaves.states, leaves.legal, 2)
    async with client(address) as evaluator, KServeEvaluator(address, MODEL) as other:
        found, wanted = await evaluator.evaluate(batch, version=V1), await other.evaluate(batch, version=V1)
    assert found.version == wanted.version == 1
    pairs = zip(
        (found.policy, found.value, *found.extra_heads), (wanted.policy, wanted.value, *wanted.extra_heads), strict=True
    )
    assert all(np.array_equal(one, other) and one.dtype == other.dtype for one, other in pairs)


async def test_a_block_over_the_limit_is_split_and_put_together_again(near, address, positions, loader):
    states, legal = positions[0][:20], positions[1][:20]
    async with client(address, max_rows=8) as evaluator:
        found = await evaluator.evaluate(LeafBatch(states, legal), version=V1)
    np.testing.assert_array_equal(found.value, expected_value(states, legal, 1))


async def test_more_requests_than_slots_wait_for_one_and_are_all_answered(near, address, leaves, loader, monkeypatch):
    monkeypatch.setattr(shared_memory, "SLOTS", 2)
    async with client(address) as evaluator:
        async with held(loader, evaluator, leaves):
            tasks = [asyncio.create_task(evaluator.evaluate(first(leaves, rows), version=V1)) for rows in (2, 3, 4, 5)]
            await until(lambda: near.waiting_rows() == 2)
        assert [len((await task).policy) for task in tasks] == [2, 3, 4, 5]


async def test_a_request_of_high_priority_is_evaluated_before_self_play(open_near, publish, address, leaves, loader):
    publish()
    async with open_near(max_batch=8) as wire, client(address) as low, client(address, priority=Priority.HIGH) as high:
        async with held(loader, low, leaves):
            tasks = [asyncio.create_task(low.evaluate(leaves, version=V1))]
            await until(lambda: wire.waiting_rows() == 8)
            tasks.append(asyncio.create_task(high.evaluate(first(leaves, 7), version=V1)))
            await until(lambda: wire.waiting_rows() == 15)
        await asyncio.gather(*tasks)
    assert [sum(rows) for rows in loader.networks[1].batches][:2] == [1, 7]


async def test_a_cancelled_request_leaves_the_queue_and_disturbs_no_other(near, address, leaves, loader):
    async with client(address) as evaluator:
        async with held(loader, evaluator, leaves):
            tasks = [asyncio.create_task(evaluator.evaluate(first(leaves, rows), version=V1)) for rows in (2, 3, 4)]
            await until(lambda: near.waiting_rows() == 9)
            tasks[1].cancel()
            await until(lambda: near.waiting_rows() == 6)
        assert [len((await tasks[place]).policy) for place in (0, 2)] == [2, 4]
        await until(lambda: len(evaluator._link._free) == shared_memory.SLOTS)
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == len(leaves)


async def test_a_request_past_its_deadline_fails_and_leaves_the_queue(near, address, leaves, loader):
    async with client(address) as patient, client(address, timeout_s=0.05) as hasty, held(loader, patient, leaves):
        await hasty.connect()
        with pytest.raises(Unavailable):
            await hasty.evaluate(leaves, version=V1)
        await until(lambda: near.waiting_rows() == 0)


async def test_overload_is_refused_at_once_and_the_client_comes_back_later(open_near, publish, address, leaves, loader):
    publish()
    async with open_near(max_queue_positions=8) as wire, client(address) as evaluator:
        async with client(address, retry_s=600.0) as patient, held(loader, evaluator, leaves):
            waiting = asyncio.create_task(evaluator.evaluate(leaves, version=V1))
            await until(lambda: wire.waiting_rows() == 8)
            with pytest.raises(Overloaded, match="positions wait for the device"):
                await evaluator.evaluate(leaves, version=V1)
            later = asyncio.create_task(patient.evaluate(first(leaves, 3), version=V1))
            await until(lambda: patient.connected)
            loader.gate.set()
            assert len((await later).policy) == 3
        assert len((await waiting).policy) == 8


async def test_a_batch_that_fails_and_an_answer_that_is_not_finite_are_errors_of_their_caller_alone(
    near, address, leaves, loader, monkeypatch
):
    network = loader.networks[1]
    async with client(address) as evaluator:
        network.fault = lambda states: CorruptModel("broken on purpose")
        with pytest.raises(CorruptModel, match="broken on purpose"):
            await evaluator.evaluate(leaves, version=V1)
        network.fault = lambda states: ZeroDivisionError("secret text")
        with pytest.raises(Exception, match="internal error") as caught:
            await evaluator.evaluate(leaves, version=V1)
        assert "secret" not in str(caught.value)
        network.fault = lambda states: None
        nan = (np.full((8, leaves.legal.shape[1]), np.nan, np.float16), np.zeros((8, 2), np.float32))
        with monkeypatch.context() as patched:
            patched.setattr(type(network), "evaluate", lambda self, states, legal: nan)
            with pytest.raises(CorruptModel, match="not finite"):
                await evaluator.evaluate(leaves, version=V1)
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_outputs_that_do_not_fit_their_slot_are_an_error_and_the_slot_is_free_again(
    near, address, leaves, loader, monkeypatch
):
    wide = (np.zeros((8, 1000), np.float16), np.zeros((8, 2), np.float32))
    monkeypatch.setattr(shared_memory, "SLOTS", 1)
    async with client(address) as evaluator:
        with monkeypatch.context() as patched:
            patched.setattr(type(loader.networks[1]), "evaluate", lambda self, states, legal: wide)
            with pytest.raises(ZerofleetError, match="internal error"):
                await evaluator.evaluate(leaves, version=V1)
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_requests_are_counted_as_those_over_grpc(near, address, leaves, loader):
    served = near.server.plane.registry.resolve(MODEL, 1)

    async def counted(evaluator) -> tuple[int, int]:
        """Make one request that succeeds, one that is refused and one that is cancelled in the queue."""
        before = served.statistics.success.count, served.statistics.failure.count
        async with held(loader, evaluator, leaves):
            task = asyncio.create_task(evaluator.evaluate(leaves, version=V1))
            await until(lambda: near.waiting_rows() == 8)
            task.cancel()
            await until(lambda: near.waiting_rows() == 0)
        with pytest.raises(InvalidRequest):
            await evaluator.evaluate(LeafBatch(leaves.states, np.full_like(leaves.legal, -1)), version=V1)
        assert metrics.INFERENCE_QUEUE._value.get() == 0
        return served.statistics.success.count - before[0], served.statistics.failure.count - before[1]

    async with client(address) as evaluator, KServeEvaluator(address, MODEL, retry_s=0.0) as other:
        assert await counted(evaluator) == await counted(other) == (1, 1)


async def test_a_full_queue_refuses_requests_before_it_reads_them(open_near, publish, address, leaves, loader, knock):
    publish()
    async with open_near(max_queue_positions=8) as wire, client(address) as evaluator:
        peer = knock()
        await peer.greet()
        async with held(loader, evaluator, leaves):
            waiting = asyncio.create_task(evaluator.evaluate(leaves, version=V1))
            await until(lambda: wire.waiting_rows() == 8)
            refused = metrics.INFERENCE_REFUSED.labels(reason="overload")
            before = refused._value.get()
            with pytest.raises(Overloaded):
                await evaluator.evaluate(leaves, version=V1)
            peer.send(leaves)  # no positions were written: a server that reads them says INVALID_ARGUMENT
            assert (await peer.reply()).status == 8  # RESOURCE_EXHAUSTED
            assert refused._value.get() == before + 2
        await waiting


async def test_a_retired_version_is_not_found_and_its_successor_answers(near, address, leaves, publish):
    async with client(address) as evaluator:
        await near.server.plane.registry.serve(MODEL, [publish()])
        with pytest.raises(ModelNotFound, match="version 1"):
            await evaluator.evaluate(leaves, version=V1)
        assert (await evaluator.evaluate(leaves, version=ModelVersion(2))).version == 2


# -- clients that break, or are broken


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


# -- servers that go away, refuse, or do not offer it


async def test_a_server_that_goes_away_fails_its_requests_and_the_next_one_answers(open_near, publish, address, leaves, loader):
    publish()
    async with client(address) as evaluator:
        async with open_near() as wire:
            async with held(loader, evaluator, leaves) as task:
                wire.server.doorbell.close()  # as the kernel does for a killed server
                with pytest.raises(Unavailable, match="closed the connection"):
                    await task
            with pytest.raises(Unavailable, match="does the server offer"):
                await evaluator.evaluate(leaves, version=V1)
        async with open_near():
            assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_a_killed_server_is_unavailable_like_one_of_grpc_and_its_successor_answers(publish, store, address, leaves):
    publish()

    async def started() -> asyncio.subprocess.Process:
        path = Path(__file__).with_name("server_process.py")
        words = (f"--address={address}", f"--model-store={store.root}")
        process = await asyncio.create_subprocess_exec(sys.executable, str(path), *words, stdout=subprocess.PIPE)
        assert await process.stdout.readline() == f"{address}\n".encode()
        return process

    process = await started()
    try:
        async with ModelControl(address, store=store) as control:
            await control.serve(MODEL, [1])
        async with client(address) as evaluator, client(address, retry_s=600.0) as patient, connected(address) as auto:
            wanted = (await evaluator.evaluate(leaves, version=V1)).value
            for each in (patient, auto):
                await each.evaluate(leaves, version=V1)
            process.send_signal(signal.SIGSTOP)
            tasks = [asyncio.create_task(each.evaluate(leaves, version=V1)) for each in (evaluator, patient, auto)]
            await until(lambda: all(len(each._link._posted) == 1 for each in (evaluator, patient, auto._near)))
            process.send_signal(signal.SIGKILL)  # the blocks are written and announced, and stay unanswered
            await process.wait()
            for task in (tasks[0], tasks[2]):
                with pytest.raises(Unavailable, match="is it running"):
                    await task
            process = await started()
            async with ModelControl(address, store=store) as control:
                await control.serve(MODEL, [1])
            with suppress(ModelNotFound):  # it may reach the successor before the version
                np.testing.assert_array_equal((await tasks[1]).value, wanted)
            for each in (patient, auto, evaluator):
                np.testing.assert_array_equal((await each.evaluate(leaves, version=V1)).value, wanted)
            assert auto._near.connected
    finally:
        process.kill()
        await process.wait()


async def test_auto_goes_on_over_grpc_and_returns_to_shared_memory(open_near, publish, address, leaves, monkeypatch):
    monkeypatch.setattr(transports, "LOOK_AGAIN_S", 0.0)
    publish()
    with capture_logs() as lines:
        async with connected_evaluator(address, GAME, transport="auto") as evaluator:
            for offered in (True, False, True):
                async with open_near(shared_memory=offered) as wire:
                    assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8
                    assert isinstance(evaluator, NearestEvaluator)
                    assert evaluator._near.connected is offered
                    assert (wire.server.doorbell is not None) is offered
                await until(lambda: not evaluator._near.connected)
    said = [line["transport"] for line in lines if line["event"] == "inference.transport"]
    assert said == ["shared_memory", "grpc", "shared_memory"]


async def test_a_server_that_shuts_down_answers_requests_in_progress_and_takes_no_more(near, address, leaves, loader):
    async with client(address) as evaluator, client(address) as other:
        await other.connect()
        async with held(loader, evaluator, leaves) as task:
            drained = asyncio.create_task(near.server.drain(60.0))
            await until(lambda: near.server.plane.draining)
            with pytest.raises(Unavailable, match="shutting down"):
                await other.evaluate(leaves, version=V1)
            loader.gate.set()
            assert len((await task).policy) == 1
            await drained
        await until(lambda: not evaluator.connected)
    assert not doorbell_path(address).exists()


async def test_shared_memory_needs_a_unix_socket():
    with pytest.raises(ConfigurationError, match="transport=grpc"):
        async with connected_evaluator("127.0.0.1:1", GAME, transport="shared_memory"):
            pass
    async with connected_evaluator("127.0.0.1:1", GAME, transport="auto") as evaluator:
        assert isinstance(evaluator, KServeEvaluator)


async def test_the_socket_is_its_owners_alone_and_takes_the_place_of_a_dead_one(open_near, publish, address, leaves):
    publish()
    path = Path(str(doorbell_path(address)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    async with open_near(), client(address) as evaluator:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600  # noqa: PTH116
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8
    assert path.name not in os.listdir(path.parent)  # noqa: PTH208


async def test_a_server_of_another_user_gets_neither_token_nor_positions(near, address, leaves, monkeypatch):
    monkeypatch.setattr(block_link, "user_of", lambda connection: os.geteuid() + 1)
    monkeypatch.setattr(block_link, "ROOT", os.geteuid() + 2)
    async with client(address, token="a-token-of-some-length") as evaluator:
        with pytest.raises(Unavailable, match="belongs to user"):
            await evaluator.evaluate(leaves, version=V1)


async def test_of_many_callers_one_waits_for_a_server_that_does_not_answer(address, leaves, monkeypatch):
    monkeypatch.setattr(shared_memory, "CONNECT_S", 0.05)
    monkeypatch.setattr(transports, "LOOK_AGAIN_S", 600.0)
    asked = []

    class Far:
        async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> None:
            asked.append(version)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as silent:
        silent.bind(str(doorbell_path(address)))
        silent.listen(8)
        evaluator = NearestEvaluator(client(address), Far())
        await asyncio.gather(*(evaluator.evaluate(leaves, version=V1) for _ in range(4)))
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert asked == [V1] * 4


async def test_an_answer_of_too_few_outputs_is_one_of_a_corrupt_model(near, address, leaves, monkeypatch):
    monkeypatch.setattr(BlockConnection, "_shapes", lambda self, request, served: (OutputShape.of("FP16", ACTIONS),))
    async with client(address) as evaluator:
        with pytest.raises(CorruptModel, match="1 outputs, want 2"):
            await evaluator.evaluate(leaves, version=V1)


@pytest.mark.parametrize("name", games.core.available())
def test_a_worker_of_any_game_has_a_region_of_16_mib_at_most_and_fills_its_slots(name):
    spec = games.make(name).spec()
    hello = SharedMemoryEvaluator("unix:/x", games.make(name))._hello
    assert Hello.unpack(hello.pack()) == hello
    assert hello.region_bytes <= 16 << 20
    for extra in (False, True):
        rows = rows_in(hello.slot_bytes, spec, extra_heads=extra, most=MAX_REQUEST_ROWS)
        assert slot_bytes_of(spec, rows, extra_heads=extra) <= hello.slot_bytes
        assert rows == MAX_REQUEST_ROWS or slot_bytes_of(spec, rows + 8, extra_heads=extra) > hello.slot_bytes


async def test_a_block_over_the_size_of_a_slot_is_split(near, address, positions, loader, monkeypatch):
    monkeypatch.setattr(shared_memory, "SLOT_BYTES", slot_bytes_of(GAME.spec(), 8))
    states, legal = positions[0][:20], positions[1][:20]
    async with client(address) as evaluator:
        found = await evaluator.evaluate(LeafBatch(states, legal, 2), version=V1)
        np.testing.assert_array_equal(found.value, expected_value(states, legal, 1))
    assert max(map(len, loader.networks[1].batches)) > 1 or len(loader.networks[1].batches) > 1


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
            with pytest.raises(Overloaded, match="use gRPC"):
                await later.connect()
            async with connected_evaluator(address, GAME, transport="auto") as auto:
                assert len((await auto.evaluate(leaves, version=V1)).policy) == 8
        async with client(address, retry_s=600.0) as patient:
            assert len((await patient.evaluate(leaves, version=V1)).policy) == 8


async def test_a_batch_of_another_game_is_refused_before_it_is_sent(near, address, leaves):
    wide = LeafBatch(np.zeros((8, 1 << 20), np.uint8), leaves.legal)
    torn = LeafBatch(leaves.states, leaves.legal[:3])
    async with client(address) as evaluator:
        for batch in (wide, torn):
            with pytest.raises(InvalidRequest):
                await evaluator.evaluate(batch, version=V1)
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


@pytest.mark.parametrize(
    "reply",
    [
        b"x",
        Reply(0, 5, 9).pack(),
        Reply(0, 0, 1, 2).pack(),
        Reply(0, 0, 1, 1).pack()[:1] + b"\xff" + Reply(0, 0, 1, 1).pack()[2:],
    ],
)
async def test_a_reply_that_matches_no_request_ends_the_connection(leaves, address, reply):
    path = doorbell_path(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(1)
        listener.setblocking(False)
        opening = asyncio.create_task(BlockLink.open(address, HELLO, timeout_s=60.0))
        await asyncio.sleep(0)
        server, _ = listener.accept()
        with server:
            socket.send_fds(server, [Reply(0, 0, 0).pack()], [descriptor := block_connection._region(HELLO.region_bytes)])
            os.close(descriptor)
            link = await opening
            task = asyncio.create_task(link.evaluate(leaves, 1, timeout_s=60.0, priority=Priority.DEFAULT))
            await asyncio.sleep(0)
            server.send(reply)
            with pytest.raises(Unavailable):
                await task
    assert link.closed
