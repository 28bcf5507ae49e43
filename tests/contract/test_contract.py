"""What a server of evaluations promises, whoever it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from zerofleet.contracts.priorities import PRIORITY_PARAMETER, Priority
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, PermissionRefused, Unavailable
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.replicas import ReplicaControl
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.tokens import TOKEN_HEADERS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # Triton loads a version in seconds of a processor
TOKEN = "s3cret"  # of conftest.py
V1, V2 = ModelVersion(1), ModelVersion(2)
BLOCKS = 24  # requests of self-play that wait at once
PAUSE_S = 0.01  # of a client between two requests: the version that is being loaded needs a processor too


class Load:
    """Clients that ask all the time for a version named by the test, and check every answer."""

    def __init__(self, target, models: dict) -> None:
        self._target, self._model = target, models[1]
        batch = self._model.positions()
        self._batches = [LeafBatch(batch.states[at : at + 8], batch.legal[at : at + 8]) for at in range(0, 16, 8)]
        self._expected = {v: [model.expected(each, v)[:2] for each in self._batches] for v, model in models.items()}
        self.version = 1
        self.answered = 0
        self._answer = asyncio.Event()
        self._stop = asyncio.Event()

    async def client(self, evaluator, which: int) -> None:
        while not self._stop.is_set():
            asked = ModelVersion(self.version)
            answer = await evaluator.evaluate(self._batches[which], version=asked)
            policy, value = self._expected[asked][which]
            np.testing.assert_allclose(answer.policy, policy, atol=5e-4)
            np.testing.assert_allclose(answer.value, value, atol=5e-4)
            self.answered += 1
            self._answer.set()
            await asyncio.sleep(PAUSE_S)

    async def __aenter__(self):
        # A failed request would be asked again for `retry_s`: without retries every failure shows.
        self._evaluator = self._target.evaluator(self._model, retry_s=0.0)
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        for which in range(len(self._batches)):
            self._group.create_task(self.client(self._evaluator, which))
        return self

    async def __aexit__(self, *error) -> None:
        self._stop.set()
        await self._group.__aexit__(*error)
        await self._evaluator.aclose()

    async def more_answers(self) -> None:
        """Wait until every client has been answered once more."""
        wanted = self.answered + 2 * len(self._batches)
        async with asyncio.timeout(60):
            while self.answered < wanted:
                self._answer.clear()
                await self._answer.wait()


# Each load of a version into Triton costs seconds of a processor: one test makes all of what one model can show.
async def test_answers_are_the_networks_own_and_name_their_version_and_models_are_changed_by_holders_of_the_token(target):
    model = target.model("tic_tac_toe")
    batch = model.positions()
    async with target.control() as control, target.evaluator(model) as evaluator:
        await check_the_token_is_asked_for(target, model)
        with pytest.raises(ModelNotFound):
            await evaluator.evaluate(batch, version=V1)
        await control.serve(model.name, [model.publish()])
        assert await control.loaded() == {model.name: [1]}
        model.check(await evaluator.evaluate(batch, version=V1), batch, 1)
        await check_independence_of_batch_mates(model, evaluator, batch)
        await check_a_block_larger_than_a_request(model, evaluator)
        await check_refusals(target, model, evaluator, batch)
        await check_priorities(target, model, batch)
        await check_replicas(target, model)
        model.check(await evaluator.evaluate(batch, version=V1), batch, 1)
        await control.unload(model.name)
        with pytest.raises(ModelNotFound):
            await evaluator.evaluate(batch, version=V1)


async def check_the_token_is_asked_for(target, model) -> None:
    """To list models, as `deploy/triton` restricts it; evaluations need none."""
    for token in (None, "wrong"):
        async with target.control(token) as control:
            with pytest.raises((PermissionRefused, Unavailable)):  # Triton says UNAVAILABLE
                await control.loaded()


async def check_independence_of_batch_mates(model, evaluator, batch) -> None:
    parts = [LeafBatch(batch.states[at : at + 3], batch.legal[at : at + 3]) for at in range(0, 30, 3)]
    answers = await asyncio.gather(*(evaluator.evaluate(part, version=V1) for part in parts))
    for part, answer in zip(parts, answers, strict=True):
        model.check(answer, part, 1)


async def check_a_block_larger_than_a_request(model, evaluator) -> None:
    batch = model.positions(games=200, seed=7)
    assert len(batch) > 1024
    model.check(await evaluator.evaluate(batch, version=V1), batch, 1)


async def check_refusals(target, model, evaluator, batch) -> None:
    with pytest.raises(ModelNotFound):
        await evaluator.evaluate(batch, version=V2)
    with pytest.raises(InvalidRequest):
        await evaluator.evaluate(LeafBatch(batch.states[:, :-1], batch.legal), version=V1)
    async with open_inference_channel(target.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = evaluator._request(batch, 1)
        request.raw_input_contents[0] += b"\0"
        for spoilt in (request, messages.ModelInferRequest(model_name=model.name)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.ModelInfer(spoilt, timeout=60)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        request = evaluator._request(batch, 1)
        request.model_version = ""
        assert (await stub.ModelInfer(request, timeout=60)).model_version == "1"


async def check_priorities(target, model, batch) -> None:
    """They are configured, and a malformed one is refused."""
    async with (
        target.evaluator(model, priority=Priority.HIGH) as evaluator,
        open_inference_channel(target.address) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        asked, token = messages.ModelConfigRequest(name=model.name), [(header, TOKEN) for header in TOKEN_HEADERS]
        batching = (await stub.ModelConfig(asked, timeout=60, metadata=token)).config.dynamic_batching
        assert (batching.priority_levels, batching.default_priority_level) == (2, 2)
        for number in (0, 1, 2, 3):
            request = evaluator._request(batch, 1)
            request.parameters[PRIORITY_PARAMETER].uint64_param = number
            assert (await stub.ModelInfer(request, timeout=60)).model_version == "1"
        request.parameters[PRIORITY_PARAMETER].string_param = "1"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(request, timeout=60)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def check_replicas(target, model) -> None:
    """Each replica of a name is told what to serve, and a dead one is passed over."""
    name = f"ipv4:{target.address},127.0.0.1:1"
    async with ReplicaControl(name, token=TOKEN, store=target.store, absence_s=0.0) as control:
        await control.serve(model.name, [1])
        assert await control.ready(model.name, 1)
        with pytest.raises(ModelNotFound, match="no version 9"):
            await control.serve(model.name, [1, 9])
        assert await control.ready(model.name, 1)


async def test_a_request_of_high_priority_overtakes_blocks_of_self_play(target):
    model = target.model("connect_four", rows=5)
    block, single = (first_rows(model.positions(games=200, seed=3), rows) for rows in (1024, 1))
    answered: list[str] = []

    async def ask(evaluator, batch: LeafBatch, name: str) -> None:
        model.check(await evaluator.evaluate(batch, version=V1), batch, 1)
        answered.append(name)

    async with (
        target.control() as control,
        target.evaluator(model) as selfplay,
        target.evaluator(model, priority=Priority.HIGH) as person,
    ):
        await control.serve(model.name, [model.publish()])
        await person.evaluate(single, version=V1)
        async with asyncio.TaskGroup() as group:
            for _ in range(BLOCKS):
                group.create_task(ask(selfplay, block, "self-play"))
            await asyncio.sleep(0)
            group.create_task(ask(person, single, "person"))
    assert answered.count("self-play") == BLOCKS
    assert answered.index("person") < BLOCKS // 2


def first_rows(batch: LeafBatch, rows: int) -> LeafBatch:
    """Return the first rows of a batch."""
    assert len(batch) >= rows
    return LeafBatch(batch.states[:rows], batch.legal[:rows])


async def test_versions_are_swapped_under_load_without_a_failed_request_and_a_broken_one_is_refused(target):
    plain = target.model("connect_four", rows=4, columns=4)
    both = replace(plain, extra_heads=("opponents", "plies_left"))
    models = {plain.publish(): plain, both.publish(): both}
    broken = both.publish()
    path = target.store.directory(plain.name, broken) / "model.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    async with target.control() as control:
        await control.serve(plain.name, [1])
        async with Load(target, models) as load:
            await load.more_answers()
            with pytest.raises(CorruptModel, match="sha256"):
                # Alone: Triton 2.51 may crash as it destroys what it loaded beside a version that cannot be loaded.
                await control.serve(plain.name, [broken])
            with pytest.raises(ModelNotFound, match="no version 9"):
                await control.serve(plain.name, [1, 9])
            await load.more_answers()
            assert (await control.loaded())[plain.name] == [1]
            await control.serve(plain.name, [1, 2])
            assert (await control.loaded())[plain.name] == [1, 2]
            await load.more_answers()
            load.version = 2
            await load.more_answers()
            await check_extra_heads(target, plain, both)
            await control.serve(plain.name, [2])
            await load.more_answers()
        assert (await control.loaded())[plain.name] == [2]
        assert not await control.ready(plain.name, 1)
        await control.unload(plain.name)


async def check_extra_heads(target, plain, both) -> None:
    """They are answered to those who ask, and by the versions that have them."""
    async with target.evaluator(plain) as evaluator:
        await check_rows_stay_together(both, evaluator)
        batch = plain.positions()
        plain.check(await evaluator.evaluate(batch, version=V1), batch, 1)
        with pytest.raises(InvalidRequest, match="head__2"):
            await evaluator.evaluate(replace(batch, extra_heads=1), version=V1)
        with pytest.raises(InvalidRequest, match="head__4"):
            await evaluator.evaluate(replace(batch, extra_heads=3), version=V2)
        await check_all_outputs_are_sent_when_none_is_named(target, both, evaluator)
        both.check(await evaluator.evaluate(batch, version=V2), batch, 2)


async def check_rows_stay_together(model, evaluator) -> None:
    """Requests for none, one or two heads that the server puts into one batch, and a block it gets in two."""
    batch = model.positions()
    parts = [LeafBatch(batch.states[at : at + 3], batch.legal[at : at + 3], at % 4 % 3) for at in range(0, 36, 3)]
    assert {part.extra_heads for part in parts} == {0, 1, 2}
    answers = await asyncio.gather(*(evaluator.evaluate(part, version=V2) for part in parts))
    for part, answer in zip(parts, answers, strict=True):
        model.check(answer, part, 2)
    block = replace(model.positions(games=200, seed=7), extra_heads=2)
    assert len(block) > 1024
    model.check(await evaluator.evaluate(block, version=V2), block, 2)


async def check_all_outputs_are_sent_when_none_is_named(target, model, evaluator) -> None:
    batch = model.positions()
    request = evaluator._request(batch, 2)
    del request.outputs[:]
    async with open_inference_channel(target.address) as channel:
        reply = await service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    found = {output.name: (output.datatype, list(output.shape)) for output in reply.outputs}
    rows, spec = len(batch), model.game.spec()
    assert found == {
        "policy__0": ("FP16", [rows, spec.max_legal]),
        "value__1": ("FP32", [rows, 2]),
        "head__2": ("FP16", [rows, spec.num_actions]),
        "head__3": ("FP32", [rows, 1]),
    }
