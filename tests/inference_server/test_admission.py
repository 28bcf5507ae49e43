"""While the queue is full, calls for evaluations are turned away unread; everything else passes."""

import asyncio

import grpc
import numpy as np
from fake_network import MODEL, expected_value, refusal, until

from inference_server import kserve
from zerofleet.evaluators.control import ModelControl
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
            assert wire.server.plane.full() is None  # nobody was refused yet, so nobody is refused unread
            await refusal(wire.infer(states, legal))
            assert wire.server.plane.full() is not None
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
