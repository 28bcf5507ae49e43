"""The request parameter `priority` over real gRPC: what it does, and what the server says about it."""

from __future__ import annotations

import asyncio
import random

import pytest
from fake_network import MODEL, FakeLoader, Wire, infer_request, until
from tritonclient.grpc import service_pb2

from zerofleet.contracts.priorities import MAX_PRIORITY, Priority
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.telemetry import metrics


@pytest.fixture
def small(positions) -> LeafBatch:
    return LeafBatch(positions[0][:4], positions[1][:4])


async def occupy(wire: Wire, loader: FakeLoader, positions, group: asyncio.TaskGroup) -> None:
    """Hold the device with a request of 9 rows, and queue one of 12 rows of low priority behind it."""
    loader.gate.clear()
    loader.entered.clear()
    group.create_task(wire.infer(positions[0][:9], positions[1][:9]))
    assert await asyncio.to_thread(loader.entered.wait, 60)
    group.create_task(wire.infer(positions[0][:12], positions[1][:12]))
    await until(lambda: wire.waiting_rows() == 12)


async def sent(wire: Wire, request: service_pb2.ModelInferRequest) -> service_pb2.ModelInferResponse:
    """Send a request and return the reply."""
    return await wire.stub.ModelInfer(request, timeout=60)


def batches(loader: FakeLoader) -> list[list[int]]:
    return loader.networks[1].batches


@pytest.mark.parametrize("kind", ["int64_param", "uint64_param"])
async def test_priority_1_overtakes_a_waiting_request(wire, loader, positions, small, kind):
    request = infer_request(small.states, small.legal)
    setattr(request.parameters["priority"], kind, 1)
    async with asyncio.TaskGroup() as group:
        await occupy(wire, loader, positions, group)
        group.create_task(sent(wire, request))
        await until(lambda: wire.waiting_rows() == 16)
        loader.gate.set()
    assert batches(loader)[1][0] == 4  # the rest may be split, since the device was slow


@pytest.mark.parametrize("number", [None, 0, 2, 3, MAX_PRIORITY])
async def test_the_default_and_lower_priorities_wait_their_turn(wire, loader, positions, small, number):
    request = infer_request(small.states, small.legal)
    if number is not None:
        request.parameters["priority"].uint64_param = number
    async with asyncio.TaskGroup() as group:
        await occupy(wire, loader, positions, group)
        group.create_task(sent(wire, request))
        await until(lambda: wire.waiting_rows() == 16)
        loader.gate.set()
    assert batches(loader) == [[9], [12, 4]]


async def test_unknown_parameters_are_ignored(wire, small):
    request = infer_request(small.states, small.legal)
    request.parameters["sequence_id"].int64_param = 7
    assert (await wire.stub.ModelInfer(request, timeout=60)).model_version == "1"


@pytest.mark.parametrize(("priority", "first"), [(Priority.HIGH, 4), (Priority.DEFAULT, 12)])
async def test_an_evaluator_sends_its_priority(wire, loader, positions, small, priority, first):
    async with (
        KServeEvaluator(wire.server.address, MODEL, priority=priority, rng=random.Random(1)) as evaluator,
        asyncio.TaskGroup() as group,
    ):
        await occupy(wire, loader, positions, group)
        group.create_task(evaluator.evaluate(small, version=ModelVersion(1)))
        await until(lambda: wire.waiting_rows() == 16)
        loader.gate.set()
    assert batches(loader)[1][0] == first


async def test_an_analysis_overtakes_self_play(wire, loader, positions):
    async with EvaluationClient(wire.server.address) as client, asyncio.TaskGroup() as group:
        await occupy(wire, loader, positions, group)
        group.create_task(client.evaluate("tic_tac_toe", []))
        await until(lambda: wire.waiting_rows() == 13)
        loader.gate.set()
    assert batches(loader)[1][0] == 1


async def test_the_configuration_states_the_priorities(wire):
    config = (await wire.stub.ModelConfig(service_pb2.ModelConfigRequest(name=MODEL), timeout=60)).config
    batching = config.dynamic_batching
    assert (batching.priority_levels, batching.default_priority_level) == (2, 2)


async def test_waits_are_counted_by_priority(wire, small):
    def waits() -> list[float]:
        found = {
            sample.labels["priority"]: sample.value
            for family in metrics.INFERENCE_QUEUE_TIME.collect()
            for sample in family.samples
            if sample.name.endswith("_count")
        }
        return [found.get(level, 0.0) for level in ("1", "2")]

    before = waits()
    async with KServeEvaluator(wire.server.address, MODEL, priority=Priority.HIGH) as urgent:
        await urgent.evaluate(small, version=ModelVersion(1))
    await wire.infer(small.states, small.legal)
    await wire.infer(small.states, small.legal)
    assert [after - known for after, known in zip(waits(), before, strict=True)] == [1.0, 2.0]
