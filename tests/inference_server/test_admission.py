"""While the queue is full, calls for evaluations are turned away unread; everything else passes."""

import asyncio
import random

import grpc
import numpy as np
import pytest
from fake_network import MODEL, expected_value, infer_request, refusal, until

from inference_server import kserve
from zerofleet.contracts.priorities import HIGH_PRIORITY_HEADER, Priority
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.telemetry import metrics


async def test_a_full_server_refuses_requests_unread_until_there_is_room(open_wire, publish, loader, positions, monkeypatch):
    states, legal = positions[0][:10], positions[1][:10]
    read = []
    tensors = kserve._tensors
    monkeypatch.setattr(kserve, "_tensors", lambda request: read.append(request) or tensors(request))
    async with open_wire(max_queue_positions=50) as wire, ModelControl(wire.server.address) as control:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        async with asyncio.TaskGroup() as group:
            blocked = group.create_task(wire.infer(states, legal))
            assert await asyncio.to_thread(loader.entered.wait, 60)
            waiting = [group.create_task(wire.infer(states, legal)) for _ in range(5)]
            await until(lambda: wire.waiting_rows() == 50)
            assert wire.server.plane.full(Priority.LOW) is None  # no call was refused yet, so none is refused unread
            await refusal(wire.infer(states, legal))
            assert wire.server.plane.full(Priority.LOW) is not None
            seen, counted = len(read), metrics.INFERENCE_REFUSED.labels(reason="overload")._value.get()
            refused = await asyncio.gather(*(refusal(wire.infer(states, legal)) for _ in range(30)))
            assert {code for code, _ in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert {details for _, details in refused} == {"50 positions wait for the device; try again later"}
            assert len(read) == seen
            assert metrics.INFERENCE_REFUSED.labels(reason="overload")._value.get() == counted + 30
            assert await control.ready(MODEL, 1)  # other calls pass
            loader.gate.set()
        for task in [blocked, *waiting]:
            np.testing.assert_array_equal(task.result()[1], expected_value(states, legal, 1))
        await wire.infer(states, legal)
        assert len(read) == seen + 1


@pytest.mark.parametrize("front_ends", [1, 2])
async def test_self_play_that_fills_the_queue_does_not_shut_out_a_person(open_wire, publish, loader, positions, front_ends):
    """An evaluator of high priority announces its requests: they are read, and take the room beyond the bound."""
    states, legal = positions[0][:10], positions[1][:10]
    publish()
    async with open_wire(front_ends=front_ends, max_queue_positions=40) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        loader.gate.clear()
        loader.entered.clear()
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(wire.infer(states, legal))]
            assert await asyncio.to_thread(loader.entered.wait, 60)
            waiting += [group.create_task(wire.infer(states, legal)) for _ in range(4)]
            await until(lambda: wire.waiting_rows() == 40)
            for _ in range(2):  # the first is read and does not fit, the second is refused unread
                assert (await refusal(wire.infer(states, legal)))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            evaluator = KServeEvaluator(wire.server.address, MODEL, priority=Priority.HIGH, rng=random.Random(1))
            async with evaluator:
                person = group.create_task(evaluator.evaluate(LeafBatch(states[:5], legal[:5]), version=ModelVersion(1)))
                await until(lambda: wire.waiting_rows() == 45)
                untrue = wire.stub.ModelInfer(infer_request(states, legal), timeout=60, metadata=[HIGH_PRIORITY_HEADER])
                code, text = await refusal(untrue)
                assert (code, text[:30]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "45 positions wait for the devi")
                loader.gate.set()
                np.testing.assert_array_equal((await person).value, expected_value(states[:5], legal[:5], 1))
                await asyncio.gather(*waiting)
