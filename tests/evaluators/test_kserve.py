"""The client against a server that misbehaves on request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

import games
from gatekeeper.service import _reach_evaluator
from gatekeeper.settings import GatekeeperSettings
from selfplay_worker.champion import AdoptedModel
from selfplay_worker.evaluation import PatientEvaluator
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.worker import _evaluator
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Overloaded, PermissionRefused, Unavailable
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.search import Leaves
from zerofleet.telemetry import metrics
from zerofleet.testing import EvaluatorContract

V1 = ModelVersion(1)
MODEL = "some_game"
TIC_TAC_TOE = games.make("tic_tac_toe")


def batch(rows: int) -> LeafBatch:
    states = np.arange(rows * 3, dtype=np.int64).astype(np.uint8).reshape(rows, 3)
    return LeafBatch(states, np.tile(np.array([0, 2, -1, -1], np.int16), (rows, 1)))


class Servant(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers each row with its first byte; `faults` are statuses for the next calls, `spoil` changes replies."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.faults: list[tuple[grpc.StatusCode, str]] = []
        self.spoil: Callable[[Any], None] = lambda reply: None
        self.unit = 1.0
        """Factor of the first byte of a row."""

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        self.rows.append(request.inputs[0].shape[0])
        if self.faults:
            await context.abort(*self.faults.pop(0))
        if len(request.outputs) > 4:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unknown output head__4")
        states = np.frombuffer(request.raw_input_contents[0], np.uint8).reshape(*request.inputs[0].shape)
        legal = np.frombuffer(request.raw_input_contents[1], "<i2").reshape(*request.inputs[1].shape)
        reply = messages.ModelInferResponse(model_name=request.model_name, model_version=request.model_version)
        first = (states[:, 0] * self.unit).astype(np.float32)
        value = np.stack([first, -first], axis=1)
        tensors = [("value__1", "FP32", value), ("policy__0", "FP16", uniform_policy(legal))]
        opponents = np.eye(5, dtype=np.float16)[states[:, 0] // 3 % 5]
        tensors += [("head__3", "FP32", value[:, 1:]), ("head__2", "FP16", opponents)][2 - (len(request.outputs) - 2) :]
        for name, datatype, array in tensors:
            reply.outputs.add(name=name, datatype=datatype, shape=array.shape)
            reply.raw_output_contents.append(array.tobytes())
        self.spoil(reply)
        return reply


@pytest.fixture
def servant() -> Servant:
    return Servant()


def evaluator(address: str, **settings: Any) -> KServeEvaluator:
    return KServeEvaluator(address, MODEL, rng=random.Random(1), **settings)


async def test_rows_come_back_in_order_and_name_their_version(address):
    async with evaluator(address) as client:
        answer = await client.evaluate(batch(20), version=ModelVersion(5))
    assert answer.version == 5
    np.testing.assert_array_equal(answer.value[:, 0], np.arange(20) * 3)
    np.testing.assert_array_equal(answer.policy, np.tile(np.array([0.5, 0.5, 0, 0], np.float16), (20, 1)))


async def test_a_block_over_the_limit_is_split_and_put_together_again(address, servant):
    async with evaluator(address, max_rows=8) as client:
        answer = await client.evaluate(batch(20), version=V1)
    assert sorted(servant.rows) == [4, 8, 8]
    np.testing.assert_array_equal(answer.value[:, 0], np.arange(20) * 3)


@pytest.mark.parametrize(("listed", "extra_heads", "head_width"), [(5000, 0, 0), (500, 1, 5000)])
async def test_a_block_of_thousands_of_actions_is_split_to_fit_the_messages(address, servant, listed, extra_heads, head_width):
    legal = np.tile(np.arange(listed, dtype=np.int16), (1024, 1))
    async with evaluator(address) as client:
        answer = await client.evaluate(LeafBatch(batch(1024).states, legal, extra_heads, head_width), version=V1)
    assert answer.policy.shape == (1024, listed)
    assert sum(servant.rows) == 1024
    assert max(servant.rows) < 1024
    np.testing.assert_array_equal(answer.value[:, 0], batch(1024).states[:, 0])


async def test_extra_heads_come_back_as_asked_and_in_order(address):
    async with evaluator(address, max_rows=8) as client:
        for extra_heads in (0, 1, 2):
            answer = await client.evaluate(replace(batch(20), extra_heads=extra_heads), version=V1)
            assert len(answer.extra_heads) == extra_heads
            np.testing.assert_array_equal(answer.value[:, 0], np.arange(20) * 3)
        opponents, plies_left = answer.extra_heads
        nothing = await client.evaluate(replace(batch(0), extra_heads=2), version=V1)
    assert (opponents.shape, opponents.dtype, plies_left.dtype) == ((20, 5), np.float16, np.float32)
    np.testing.assert_array_equal(opponents, np.eye(5)[np.arange(20) % 5])
    np.testing.assert_array_equal(plies_left, answer.value[:, 1:])
    assert [len(head) for head in nothing.extra_heads] == [0, 0]


async def test_the_arrays_may_be_overwritten_as_soon_as_the_call_has_begun(address):
    async with evaluator(address, max_rows=8) as client, asyncio.TaskGroup() as group:
        leaves = batch(20)
        task = group.create_task(client.evaluate(leaves, version=V1))
        await asyncio.sleep(0)
        leaves.states[:] = 0
    np.testing.assert_array_equal(task.result().value[:, 0], np.arange(20) * 3)


async def test_no_leaves_need_no_server():
    async with evaluator("127.0.0.1:1") as client:
        answer = await client.evaluate(batch(0), version=V1)
    assert answer.policy.shape == (0, 4)


@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE])
async def test_an_overloaded_or_absent_server_is_asked_again(address, servant, code):
    servant.faults = [(code, "later")] * 3
    async with evaluator(address) as client:
        answer = await client.evaluate(batch(2), version=V1)
    assert len(answer.value) == 2
    assert len(servant.rows) == 4


async def test_each_request_that_is_sent_again_is_told_with_its_reason(address, servant):
    refusals = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "full"), (grpc.StatusCode.UNAVAILABLE, "away")]
    servant.faults = list(refusals)
    told = []
    async with evaluator(address, on_retry=told.append) as client:
        await client.evaluate(batch(2), version=V1)
        assert [type(failure) for failure in told] == [Overloaded, Unavailable]
        servant.faults = [(grpc.StatusCode.INVALID_ARGUMENT, "nonsense")]
        with pytest.raises(InvalidRequest):
            await client.evaluate(batch(2), version=V1)
    assert len(told) == 2
    assert len(servant.rows) == 4


class TestKServeEvaluator(EvaluatorContract):
    extra_heads = 2

    @pytest.fixture(params=[7, 1024])
    async def evaluator(self, address, servant, request):
        servant.unit = 1 / 255
        async with evaluator(address, max_rows=request.param) as client:
            yield client


@pytest.mark.parametrize("service", ["selfplay_worker", "gatekeeper"])
async def test_a_service_counts_the_requests_that_its_evaluator_sends_again(address, servant, service, tmp_path):
    servant.faults = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")] * 2
    given = {"run_dir": tmp_path, "game": "tic_tac_toe", "inference_address": address}
    counted = metrics.EVAL_RETRIES.labels(reason="Overloaded")
    before = counted._value.get()
    async with AsyncExitStack() as stack:
        if service == "gatekeeper":
            client = await _reach_evaluator(stack, GatekeeperSettings.model_validate(given), MODEL)
            await client.evaluate(batch(2), version=V1)
        else:
            client = await stack.enter_async_context(_evaluator(WorkerSettings.model_validate(given), TIC_TAC_TOE))
            patient = PatientEvaluator(client, AdoptedModel(), spec=TIC_TAC_TOE.spec(), rng=random.Random(1))
            await patient.evaluate(Leaves(batch(2), np.array([V1, V1])))
    assert counted._value.get() - before == 2
    assert f'zerofleet_eval_retries_total{{reason="Overloaded"}} {before + 2}' in metrics.exposition(service).decode()


async def test_overload_becomes_an_error_when_it_lasts(address, servant):
    servant.faults = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "32768 positions wait")] * 1000
    async with evaluator(address, retry_s=0.05) as client:
        with pytest.raises(Overloaded, match="32768 positions wait"):
            await client.evaluate(batch(2), version=V1)
    assert 1 < len(servant.rows) < 100


async def test_a_server_that_is_not_there_becomes_an_error(address):
    async with evaluator("127.0.0.1:1", timeout_s=0.05, retry_s=0.01) as client:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 does not answer"):
            await client.evaluate(batch(2), version=V1)


async def test_a_server_that_starts_late_is_waited_for(servant, tmp_path):
    target = f"unix:{tmp_path}/late.sock"
    async with evaluator(target) as client, asyncio.TaskGroup() as group:
        task = group.create_task(client.evaluate(batch(3), version=V1))
        await asyncio.sleep(0)
        server = grpc.aio.server()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servant, server)
        server.add_insecure_port(target)
        await server.start()
        await task
        await server.stop(None)
    assert len(task.result().value) == 3


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidRequest),
        (grpc.StatusCode.NOT_FOUND, ModelNotFound),
        (grpc.StatusCode.UNAUTHENTICATED, PermissionRefused),
        (grpc.StatusCode.DATA_LOSS, CorruptModel),
    ],
)
async def test_other_refusals_are_final(address, servant, code, error):
    servant.faults = [(code, "no")] * 10
    async with evaluator(address, max_rows=1) as client:
        with pytest.raises(error, match="no"):
            await client.evaluate(batch(2), version=V1)
    assert len(servant.rows) <= 2


async def test_a_message_over_the_limit_is_not_sent_again(address, servant):
    servant.faults = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 8)")] * 10
    async with evaluator(address) as client:
        with pytest.raises(InvalidRequest, match="send fewer positions"):
            await client.evaluate(batch(2), version=V1)
    assert len(servant.rows) == 1


def other_version(reply):
    reply.model_version = "2"


def other_model(reply):
    reply.model_name = "other"


def missing_output(reply):
    del reply.outputs[0]
    del reply.raw_output_contents[0]


def empty_output(reply):
    reply.raw_output_contents[0] = b""


def fewer_rows(reply):
    reply.outputs[1].shape[0] = 1
    reply.raw_output_contents[1] = reply.raw_output_contents[1][:8]


def infinite(reply):
    reply.raw_output_contents[0] = b"\x00\x00\x80\x7f" * 4


def unpaired(reply):
    reply.raw_output_contents.append(b"")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (other_version, "requested model some_game version 1, but some_game version 2 replied"),
        (other_model, "but other version 1 replied"),
        (missing_output, "value__1 of shape none"),
        (empty_output, "0 bytes of value__1"),
        (fewer_rows, "policy__0 of shape"),
        (infinite, "not finite"),
        (unpaired, "3 raw tensors for 2 outputs"),
    ],
)
async def test_an_answer_to_another_question_is_not_believed(address, servant, spoil, says):
    servant.spoil = spoil
    async with evaluator(address) as client:
        with pytest.raises(CorruptModel, match=says):
            await client.evaluate(batch(2), version=V1)


def heads_left_out(reply):
    del reply.outputs[3]
    del reply.raw_output_contents[3]


def flat_head(reply):
    del reply.outputs[2].shape[1]


def head_of_another_type(reply):
    reply.outputs[2].datatype = "INT32"


def infinite_head(reply):
    reply.raw_output_contents[2] = b"\x00\x00\x80\x7f" * 2


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (heads_left_out, r"head__2 of shape none, want \(2, 1 or more\)"),
        (flat_head, r"head__3 of shape float32 \(2,\)"),
        (head_of_another_type, "head__3 of shape none"),
        (infinite_head, "not finite"),
    ],
)
async def test_a_spoilt_extra_head_is_not_believed(address, servant, spoil, says):
    servant.spoil = spoil
    async with evaluator(address) as client:
        with pytest.raises(CorruptModel, match=says):
            await client.evaluate(replace(batch(2), extra_heads=2), version=V1)


async def test_requests_beyond_the_limit_wait_here(address, servant, monkeypatch):
    monkeypatch.setattr("zerofleet.evaluators.kserve.MAX_IN_FLIGHT", 2)
    release = asyncio.Event()
    answer = servant.ModelInfer
    running = 0
    most = 0

    async def slow(request, context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return await answer(request, context)

    servant.ModelInfer = slow
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servant, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with evaluator(f"127.0.0.1:{port}", max_rows=1) as client, asyncio.TaskGroup() as group:
        task = group.create_task(client.evaluate(batch(6), version=V1))
        async with asyncio.timeout(60):
            while running < 2:  # noqa: ASYNC110 - turns of the loop, not a pause
                await asyncio.sleep(0)
        release.set()
        await task
    await server.stop(None)
    assert most == 2


async def test_version_zero_cannot_be_asked_for(address):
    async with evaluator(address) as client:
        with pytest.raises(InvalidRequest, match="versions begin at 1"):
            await client.evaluate(batch(1), version=ModelVersion(0))


def test_a_name_that_is_no_model_name_is_refused():
    with pytest.raises(InvalidRequest):
        KServeEvaluator("127.0.0.1:1", "../az")
