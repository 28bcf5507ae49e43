"""Front ends: several processes on one port in front of one device, over real sockets."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
from fake_network import MODEL, Wire, expected_value, infer_request, publish_version, refusal, until
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from games.core import make
from inference_server import server as server_module
from inference_server.server import follow_front_ends
from inference_server.settings import ServerSettings
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import ConfigurationError, DeviceLost, Unavailable
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.presets import InferenceSettings
from zerofleet.rpc.failures import REQUEST_ID
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.service.lifecycle import Service
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.telemetry import metrics
from zerofleet.testing import EvaluatorContract

pytestmark = pytest.mark.slow

V1 = ModelVersion(1)
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
TOKENS = {role: f"token-of-the-{role}-role" for role in ("worker", "operator")}


@pytest.fixture
async def fronted(open_wire, publish) -> AsyncIterator[Wire]:
    """A server of version 1 with two front ends, and its client."""
    publish("opponents", "plies_left")
    async with open_wire(front_ends=2, max_batch=12) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        yield wire


async def test_a_front_end_whose_process_cannot_be_made_is_refused_at_the_start(open_wire, monkeypatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("inference_server.fronts.fleet.asyncio.create_subprocess_exec", fail)
    with pytest.raises(ConfigurationError, match=r"front end . cannot start: .*Resource temporarily unavailable"):
        async with asyncio.timeout(20), open_wire(front_ends=2):
            pass


@contextmanager
def device_process(*arguments: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """A server with two front ends in a process of its own, and its address; killed at the end."""
    path = Path(__file__).with_name("server_process.py")
    command = [sys.executable, str(path), "--inference.front-ends=2", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.communicate()


def counted(metric, **labels: str) -> float:
    return metric.labels(**labels)._value.get()


@pytest.fixture(scope="module")
def contract_address(tmp_path_factory) -> Iterator[str]:
    """The address of a server of version 1 with two front ends, in processes that the contract's tests share."""
    store = DirectoryStore(tmp_path_factory.mktemp("contract") / "models")
    publish_version(store, make(MODEL), "opponents", "plies_left")

    async def serve(address: str) -> None:
        async with ModelControl(address, store=store) as control:
            await control.serve(MODEL, [1])

    with device_process(f"--model-store={store.root}", "--address=127.0.0.1:0") as (_, address):
        asyncio.run(serve(address))
        yield address


class TestContract(EvaluatorContract):
    extra_heads = 2
    missing = ModelVersion(99)

    @pytest.fixture
    async def evaluator(self, contract_address) -> AsyncIterator[KServeEvaluator]:
        async with KServeEvaluator(contract_address, MODEL, timeout_s=60.0, retry_s=0.0) as evaluator:
            yield evaluator


async def test_each_of_many_concurrent_requests_gets_the_answer_to_its_own_rows(fronted, positions):
    states, legal = positions
    cuts = [slice(start, start + 1 + start % 7) for start in range(len(states) - 7)]
    requests = [counted(metrics.FRONT_REQUESTS, front=str(front)) for front in (1, 2)]
    rows = [counted(metrics.FRONT_POSITIONS, front=str(front)) for front in (1, 2)]
    found = await asyncio.gather(*(fronted.infer(states[cut], legal[cut], version="1") for cut in cuts))
    for cut, (version, value) in zip(cuts, found, strict=True):
        assert version == "1"
        np.testing.assert_array_equal(value, expected_value(states[cut], legal[cut], 1))
    assert sum(counted(metrics.FRONT_REQUESTS, front=str(front)) for front in (1, 2)) - sum(requests) == len(cuts)
    asked = sum(cut.stop - cut.start for cut in cuts)
    assert sum(counted(metrics.FRONT_POSITIONS, front=str(front)) for front in (1, 2)) - sum(rows) == asked


async def test_a_champion_that_only_its_promotion_names_answers_behind_front_ends(open_wire, publish, store, positions):
    states, legal = positions[0][:1], positions[1][:1]
    publish(), publish()
    store.write_champion(MODEL, 1, epoch=1, reason="test")
    async with open_wire(front_ends=2) as wire:
        registry = wire.server.plane.registry
        await registry.serve_champions()
        assert (await wire.infer(states, legal))[0] == "1"
        store.write_champion(MODEL, 2, epoch=2, reason="test")
        await until(lambda: registry.resolve(MODEL, None).version == 2)
        assert (await wire.infer(states, legal))[0] == "2"


async def test_front_ends_that_end_are_started_again_and_no_answer_is_lost_or_mixed_up(fronted, positions):
    states, legal = positions
    rng = np.random.default_rng(7)
    killed = asyncio.Event()

    def restarts() -> float:
        return sum(counted(metrics.FRONT_RESTARTS, front=str(front)) for front in (1, 2))

    async def evaluate(seed: int) -> int:
        asked = 0
        async with KServeEvaluator(fronted.server.address, MODEL, timeout_s=60.0, retry_s=600.0) as evaluator:
            while not killed.is_set() or asked < 20:
                rows = rng.choice(len(states), size=5, replace=False)
                found = await evaluator.evaluate(LeafBatch(states[rows], legal[rows]), version=V1)
                np.testing.assert_array_equal(found.value, expected_value(states[rows], legal[rows], 1))
                asked += 1
        return asked

    async def kill() -> None:
        for number in (signal.SIGKILL, signal.SIGTERM):
            before = restarts()
            await until(lambda: len(fronted.server.fronts) == 2)
            for process in map(psutil.Process, fronted.server.fronts.pids.values()):
                process.send_signal(number)
            await until(lambda before=before: restarts() - before == 2)
        await until(lambda: len(fronted.server.fronts) == 2)
        killed.set()

    *asked, _ = await asyncio.gather(*(evaluate(seed) for seed in range(4)), kill())
    assert min(asked) >= 20
    assert fronted.server.plane._batcher.waiting_rows == 0


async def test_front_ends_end_with_their_killed_device_process_and_clients_reach_its_successor(store, publish, leaves):
    publish()
    with device_process(f"--model-store={store.root}", "--address=127.0.0.1:0") as (process, address):
        fronts = psutil.Process(process.pid).children()
        assert len(fronts) == 2
        async with ModelControl(address, store=store) as control:
            await control.serve(MODEL, [1])
        async with KServeEvaluator(address, MODEL, timeout_s=60.0, retry_s=0.0) as evaluator:
            wanted = (await evaluator.evaluate(leaves, version=V1)).value
            process.send_signal(signal.SIGSTOP)  # requests reach the front end, and stay unanswered
            task = asyncio.create_task(evaluator.evaluate(leaves, version=V1))
            done, _ = await asyncio.wait([task], timeout=0.1)
            assert not done
            process.send_signal(signal.SIGKILL)
            with pytest.raises(Unavailable):
                await task
            _, alive = await asyncio.to_thread(psutil.wait_procs, fronts, timeout=60)
            assert alive == []
            with device_process(f"--model-store={store.root}", f"--address={address}") as (_, again):
                assert again == address
                async with ModelControl(address, store=store) as control:
                    await control.serve(MODEL, [1])
                async with KServeEvaluator(address, MODEL, timeout_s=60.0, retry_s=60.0) as other:
                    np.testing.assert_array_equal((await other.evaluate(leaves, version=V1)).value, wanted)


def test_a_front_end_without_the_parent_that_started_it_ends_at_once():
    command = [sys.executable, "-m", "inference_server.fronts", "0", "1"]
    assert subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 1


async def test_a_drain_answers_the_calls_in_progress_and_ends_all_front_ends(fronted, loader, positions):
    states, legal = positions
    processes = [psutil.Process(pid) for pid in fronted.server.fronts.pids.values()]
    loader.gate.clear()
    loader.entered.clear()
    task = asyncio.create_task(fronted.infer(states[:3], legal[:3]))
    assert await asyncio.to_thread(loader.entered.wait, 60)
    drained = asyncio.create_task(fronted.server.drain(60.0))

    async def refused() -> bool:
        async with open_inference_channel(fronted.server.address) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            try:
                await live(b"", timeout=1.0)
            except grpc.aio.AioRpcError as failure:
                return failure.code() is grpc.StatusCode.UNAVAILABLE
        return False

    async with asyncio.timeout(60):
        while not await refused():
            pass
    loader.gate.set()
    np.testing.assert_array_equal((await task)[1], expected_value(states[:3], legal[:3], 1))
    await drained
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, timeout=60)
    assert (alive, len(fronted.server.fronts)) == ([], 0)


async def test_status_texts_metadata_streams_and_cancellations_pass_through(fronted, loader, positions):
    states, legal = positions
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await fronted.stub.ModelMetadata(messages.ModelMetadataRequest(name="go"), metadata=((REQUEST_ID, "mine"),))
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.NOT_FOUND,
        "model go is not served; served models: tic_tac_toe",
    )
    assert dict(caught.value.trailing_metadata())[REQUEST_ID] == "mine"
    for request, code, text in (
        (infer_request(states[:1], legal[:1], version="9"), grpc.StatusCode.NOT_FOUND, "served versions: 1"),
        (infer_request(states[:1], legal[:1], model="x" * 9_000), grpc.StatusCode.INVALID_ARGUMENT, "model"),
        (infer_request(states[:1, :2], legal[:1]), grpc.StatusCode.INVALID_ARGUMENT, "want [positions, 3]"),
        (infer_request(states[:1], legal[:1] * 0), grpc.StatusCode.INVALID_ARGUMENT, "legal__1 row 0 is not in order"),
    ):
        found = await refusal(fronted.stub.ModelInfer(request, timeout=60))
        assert (found[0], text in found[1]) == (code, True), found
    assert (await refusal(fronted.channel.unary_unary("/inference.GRPCInferenceService/ModelStreamInfer")(b"")))[
        0
    ] is grpc.StatusCode.UNIMPLEMENTED

    watch = health_pb2_grpc.HealthStub(fronted.channel).Watch(health_pb2.HealthCheckRequest(service=MODEL))
    assert (await watch.read()).status != NOT_SERVING
    loader.gate.clear()
    loader.entered.clear()
    held = asyncio.create_task(fronted.infer(states[:1], legal[:1]))
    assert await asyncio.to_thread(loader.entered.wait, 60)
    call = fronted.stub.ModelInfer(infer_request(states[:4], legal[:4]))
    late = fronted.stub.ModelInfer(infer_request(states[:4], legal[:4]), timeout=1.0)
    assert (await refusal(late))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: fronted.waiting_rows() == 4)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: fronted.waiting_rows() == 0)
    loader.gate.set()
    await held
    async with ModelControl(fronted.server.address) as control:
        await control.unload(MODEL)
    assert (await watch.read()).status == NOT_SERVING
    watch.cancel()
    await until(lambda: fronted.server.health.watches == 0)


async def test_high_priority_overtakes_and_a_full_queue_is_refused_by_the_front_end_unread(
    open_wire, publish, loader, positions
):
    publish()
    states, legal = positions
    async with open_wire(front_ends=2, max_batch=12, max_queue_positions=16) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        loader.gate.clear()
        loader.entered.clear()
        tasks = [asyncio.create_task(wire.infer(states[:9], legal[:9]))]
        assert await asyncio.to_thread(loader.entered.wait, 60)
        tasks.append(asyncio.create_task(wire.infer(states[:12], legal[:12])))
        await until(lambda: wire.waiting_rows() == 12)
        urgent = infer_request(states[:4], legal[:4])
        urgent.parameters["priority"].int64_param = Priority.HIGH
        tasks.append(asyncio.ensure_future(wire.stub.ModelInfer(urgent, timeout=60)))
        await until(lambda: wire.waiting_rows() == 16)
        before = counted(metrics.INFERENCE_REFUSED, reason="overload")
        more = infer_request(states[:4], legal[:4])
        found = await asyncio.gather(*(refusal(wire.stub.ModelInfer(more, timeout=60)) for _ in range(20)))
        assert {code for code, _ in found} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert "positions wait" in found[0][1]
        await until(lambda: counted(metrics.INFERENCE_REFUSED, reason="overload") - before == 20)
        loader.gate.set()
        await asyncio.gather(*tasks)
        assert loader.networks[1].batches[1][0] == 4


async def test_tokens_and_sizes_hold_at_the_port(open_wire, publish, positions):
    publish()
    lines = "\n".join(f"{role}: {token}" for role, token in TOKENS.items())
    async with open_wire(front_ends=2, tokens=lines, max_message_bytes=114_688) as wire:
        address = wire.server.address
        await wire.server.plane.registry.serve(MODEL, [1])
        request = infer_request(positions[0][:1], positions[1][:1])
        before = counted(metrics.INFERENCE_REFUSED, reason="token")
        assert (await refusal(wire.stub.ModelInfer(request)))[0] is grpc.StatusCode.UNAUTHENTICATED
        await until(lambda: counted(metrics.INFERENCE_REFUSED, reason="token") - before == 1)
        worker = (("x-zerofleet-token", TOKENS["worker"]),)
        assert (await wire.stub.ModelInfer(request, metadata=worker)).model_version == "1"
        request.id = "x" * 120_000
        assert (await refusal(wire.stub.ModelInfer(request, metadata=worker)))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        unload = messages.RepositoryModelUnloadRequest(model_name=MODEL)
        assert (await refusal(wire.stub.RepositoryModelUnload(unload, metadata=worker)))[0] is grpc.StatusCode.PERMISSION_DENIED
        async with ModelControl(address, token=TOKENS["operator"]) as control:
            await control.unload(MODEL)
        with pytest.raises(ConfigurationError, match="in use"):
            async with open_wire(front_ends=2, address=address):
                pass


def test_front_ends_need_a_port(tmp_path):
    with pytest.raises(ValidationError, match="give address as HOST:PORT"):
        ServerSettings(address=f"unix:{tmp_path}/x.sock", inference=InferenceSettings(front_ends=2))


def test_a_server_is_ready_while_a_front_end_listens(tmp_path):
    service = Service(ServerSettings(run_dir=tmp_path, address="127.0.0.1:0"))
    service.ready("127.0.0.1:1")
    follow_front_ends(service, "127.0.0.1:1", 0)
    assert not service.is_ready
    follow_front_ends(service, "127.0.0.1:1", 1)
    assert service.is_ready
    service.stopping.set()
    follow_front_ends(service, "127.0.0.1:1", 2)
    assert not service.is_ready


async def test_front_ends_that_end_with_a_lost_device_do_not_make_the_server_ready_again(
    publish, loader, store, positions, monkeypatch
):
    monkeypatch.setattr(server_module, "open_backend", lambda *_, **__: loader)
    store.write_champion(MODEL, publish(), epoch=1, reason="test")
    part = InferenceSettings(front_ends=2)
    service, addresses = Service(ServerSettings(address="127.0.0.1:0", model_store=store.root, inference=part)), asyncio.Queue()
    monkeypatch.setattr(service, "ready", lambda address: (Service.ready(service, address), addresses.put_nowait(address)))
    serving = asyncio.create_task(server_module.serve(service, service.settings))
    address = await addresses.get()
    loader.networks[1].fault = lambda states: DeviceLost("CUDA error: device-side assert triggered")
    async with open_inference_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        code, _ = await refusal(stub.ModelInfer(infer_request(positions[0][:1], positions[1][:1]), timeout=60))
    with pytest.raises(DeviceLost, match="device-side assert"):
        await serving
    assert code is grpc.StatusCode.UNAVAILABLE
    assert addresses.empty()


async def test_each_front_end_bounds_its_connections_by_address_and_the_device_process_counts_them(
    open_wire, publish, positions
) -> None:
    publish()
    before, others = metrics.GRPC_CONNECTIONS_REFUSED._value.get(), metrics.GRPC_CONNECTIONS._value.get()  # of earlier servers
    async with open_wire(front_ends=2, max_connections=16) as wire, asyncio.timeout(60):
        await wire.server.plane.registry.serve(MODEL, [1])
        host, _, port = wire.server.address.rpartition(":")
        greedy = [await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0)) for _ in range(12)]
        await until(lambda: metrics.GRPC_CONNECTIONS_REFUSED._value.get() >= before + 4)  # of 8 places, 4 are the share
        reply = await wire.stub.ModelInfer(infer_request(positions[0][:5], positions[1][:5]), timeout=30)
        assert reply.model_version == "1"
        await until(lambda: metrics.GRPC_CONNECTIONS._value.get() <= others + 2 * 4 + 1)
        for _, writer in greedy:
            writer.transport.abort()
        await until(lambda: metrics.GRPC_CONNECTIONS._value.get() == others + 1)
    assert metrics.GRPC_CONNECTIONS._value.get() == others
