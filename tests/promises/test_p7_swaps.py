"""P7 in one process: requests before, during and after a swap are answered, by the version that they name."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from promise_serving import MODEL, serving
from tritonclient.grpc import service_pb2

from zerofleet.contracts.naming import POLICY_TENSOR, VALUE_TENSOR
from zerofleet.errors import CorruptModel, ModelNotFound
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.kserve import KServeEvaluator


async def test_p7_while_a_version_loads_the_served_one_answers(tmp_path):
    async with serving(tmp_path) as server:
        server.publish(2)
        await server.registry.serve(MODEL, [1])
        server.loader.hold.clear()
        server.loader.loading.clear()
        swap = asyncio.create_task(server.registry.serve(MODEL, [2]))
        assert await asyncio.to_thread(server.loader.loading.wait, 60)
        for version in (1, None):
            server.check(await server.infer(version), 1)
        server.loader.hold.set()
        await swap
        server.check(await server.infer(None), 2)


@pytest.mark.parametrize("wanted", [[1, 3], [2, 3], [3]])
async def test_p7_a_version_that_cannot_be_loaded_changes_nothing(tmp_path, wanted):
    async with serving(tmp_path) as server:
        server.publish(3)
        server.loader.broken = {3}
        await server.registry.serve(MODEL, [1])
        with pytest.raises(CorruptModel):
            await server.registry.serve(MODEL, wanted)
        assert [served.version for served in server.registry.versions(MODEL)] == [1]
        server.check(await server.infer(1), 1)


async def test_p7_requests_that_wait_during_a_swap_are_answered_by_the_version_they_name(tmp_path):
    async with serving(tmp_path) as server:
        server.publish(3)
        await server.registry.serve(MODEL, [1, 2])
        server.loader.gate.clear()
        wanted = [1, 1, 2, 1, 2]
        asked = [asyncio.create_task(server.infer(version, turn=turn)) for turn, version in enumerate(wanted)]
        assert await asyncio.to_thread(server.loader.entered.wait, 60)
        swap = asyncio.create_task(server.registry.serve(MODEL, [3]))
        server.loader.gate.set()
        await swap
        async with asyncio.timeout(60):
            for turn, (version, answer) in enumerate(zip(wanted, await asyncio.gather(*asked), strict=True)):
                server.check(answer, version, turn=turn)
        for version in (1, 2):
            with pytest.raises(ModelNotFound):
                await server.infer(version)


async def test_p7_of_two_served_versions_each_answers_its_own_requests(tmp_path):
    async with serving(tmp_path) as server:
        server.publish(2)
        await server.registry.serve(MODEL, [1, 2])
        for version in (1, 2, 1):
            server.check(await server.infer(version), version)


def reply_of(version: int, *, finite: bool = True) -> service_pb2.ModelInferResponse:
    policy, value = np.full((1, 9), 1 / 9, np.float16), np.full((1, 2), 0.0 if finite else np.nan, np.float32)
    reply = service_pb2.ModelInferResponse(model_name=MODEL, model_version=str(version))
    for name, datatype, rows in ((POLICY_TENSOR, "FP16", policy), (VALUE_TENSOR, "FP32", value)):
        reply.outputs.add(name=name, datatype=datatype, shape=rows.shape)
        reply.raw_output_contents.append(rows.tobytes())
    return reply


@pytest.mark.parametrize("reply", [reply_of(2), reply_of(1, finite=False)], ids=["another version", "not finite"])
async def test_p7_a_client_takes_no_answer_of_another_version_and_none_that_is_not_finite(reply):
    batch = LeafBatch(np.zeros((1, 3), np.uint8), np.zeros((1, 9), np.int16))

    async def answer(request, **options):
        return answers.pop()

    async with KServeEvaluator("127.0.0.1:1", MODEL) as evaluator:
        evaluator._stub = SimpleNamespace(ModelInfer=answer)
        answers = [reply, reply_of(1)]
        assert (await evaluator.evaluate(batch, version=1)).version == 1
        with pytest.raises(CorruptModel):
            await evaluator.evaluate(batch, version=1)
