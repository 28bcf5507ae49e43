"""Servers of shared memory that go away, refuse a client, or do not offer it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from block_peers import GAME, HELLO, SLOT_BYTES, V1, client, connected, held
from fake_network import MODEL, until
from structlog.testing import capture_logs

from inference_server import block_connection
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.shared_memory import Reply, doorbell_path
from zerofleet.errors import ConfigurationError, ModelNotFound, Unavailable
from zerofleet.evaluators import block_link, shared_memory, transports
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.block_link import BlockLink
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.transports import NearestEvaluator, connected_evaluator
from zerofleet.telemetry import metrics


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
        turned = connected(address, timeout_s=10.0)  # to gRPC, where it waits this long for a server
        async with client(address) as evaluator, client(address, retry_s=600.0) as patient, turned as auto:
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


async def test_a_refused_client_uses_grpc_without_a_warning_and_does_not_knock_as_at_an_absent_server(
    open_near, publish, address, leaves, monkeypatch
):
    monkeypatch.setattr(transports, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(shared_memory, "SLOTS", 1 + (1 << 20) // SLOT_BYTES)
    publish()
    refused = metrics.INFERENCE_REFUSED.labels(reason="memory")
    before = refused._value.get()
    with capture_logs() as lines:
        async with open_near(max_bytes_in_flight=1 << 20), connected(address) as evaluator:
            for _ in range(3):
                assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8
            assert evaluator.transport == "grpc"
    assert refused._value.get() == before + 1
    assert [line["log_level"] for line in lines if line["event"].startswith("blocks.")] == ["info"]


async def test_a_refused_client_returns_to_shared_memory_once_there_is_room(open_near, publish, address, leaves, monkeypatch):
    monkeypatch.setattr(transports, "REFUSED_AGAIN_S", 0.0)
    monkeypatch.setattr(shared_memory, "SLOTS", (1 << 20) // SLOT_BYTES)
    publish()
    async with open_near(max_bytes_in_flight=1 << 20) as wire, connected(address) as evaluator:
        async with client(address) as first:
            await first.connect()
            await evaluator.evaluate(leaves, version=V1)
            assert evaluator.transport == "grpc"
        await until(lambda: len(wire.server.doorbell) == 0)
        await evaluator.evaluate(leaves, version=V1)
        assert evaluator.transport == "shared_memory"


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
