"""Blocks in shared memory: answers to a client, over real sockets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import numpy as np
import pytest
from block_peers import GAME, V1, client, first, held
from fake_network import ACTIONS, MODEL, expected_value, until

import games
from inference_server.block_connection import BlockConnection
from zerofleet.contracts.naming import MAX_REQUEST_ROWS
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.shared_memory import (
    Hello,
    OutputShape,
    rows_in,
    slot_bytes_of,
)
from zerofleet.errors import (
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    Unavailable,
    ZerofleetError,
)
from zerofleet.evaluators import shared_memory
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.shared_memory import SharedMemoryEvaluator
from zerofleet.telemetry import metrics
from zerofleet.testing import EvaluatorContract


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
            assert metrics.INFERENCE_QUEUE.collect()[0].samples[0].value == 8  # while it waits
            task.cancel()
            await until(lambda: near.waiting_rows() == 0)
        with pytest.raises(InvalidRequest):
            await evaluator.evaluate(LeafBatch(leaves.states, np.full_like(leaves.legal, -1)), version=V1)
        assert metrics.INFERENCE_QUEUE.collect()[0].samples[0].value == 0
        return served.statistics.success.count - before[0], served.statistics.failure.count - before[1]

    async with client(address) as evaluator, KServeEvaluator(address, MODEL, retry_s=0.0) as other:
        assert await counted(evaluator) == await counted(other) == (1, 1)


async def test_a_full_queue_refuses_requests_before_it_reads_them_but_those_of_high_priority(
    open_near, publish, address, leaves, loader, knock
):
    publish()
    person = client(address, priority=Priority.HIGH)
    async with open_near(max_queue_positions=8) as wire, client(address) as evaluator, person:
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
            urgent = asyncio.create_task(person.evaluate(first(leaves, 1), version=V1))
            await until(lambda: wire.waiting_rows() == 9)
        await asyncio.gather(waiting, urgent)


async def test_a_retired_version_is_not_found_and_its_successor_answers(near, address, leaves, publish):
    async with client(address) as evaluator:
        await near.server.plane.registry.serve(MODEL, [publish()])
        with pytest.raises(ModelNotFound, match="version 1"):
            await evaluator.evaluate(leaves, version=V1)
        assert (await evaluator.evaluate(leaves, version=ModelVersion(2))).version == 2


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


@pytest.mark.parametrize(
    ("packed_bytes", "extra_heads", "version"),
    [(1 << 20, 0, 1), (3, -1, 1), (3, 0, 1 << 64)],
    ids=["states", "heads", "version"],
)
async def test_a_request_that_cannot_be_sent_is_refused_and_leaves_its_place_to_the_next(
    near, address, leaves, monkeypatch, packed_bytes, extra_heads, version
):
    monkeypatch.setattr(shared_memory, "SLOTS", 1)
    batch = LeafBatch(np.zeros((8, packed_bytes), np.uint8), leaves.legal, extra_heads)
    async with client(address) as evaluator:
        with pytest.raises(InvalidRequest):
            await evaluator.evaluate(batch, version=ModelVersion(version))
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_a_request_without_a_deadline_is_answered(near, address, leaves):
    async with client(address, timeout_s=math.inf) as evaluator:
        assert len((await evaluator.evaluate(leaves, version=V1)).policy) == 8


async def test_a_closed_evaluator_ends_requests_in_progress_at_once_and_makes_no_new_connection(near, address, leaves, loader):
    evaluator = client(address, retry_s=600.0)
    async with held(loader, evaluator, leaves) as waiting:
        evaluator.close()
        with pytest.raises(Unavailable, match="the evaluator was closed"):
            await waiting
    for call in (evaluator.evaluate(leaves, version=V1), evaluator.connect()):
        with pytest.raises(Unavailable, match="the evaluator was closed"):
            await call
    assert not evaluator.connected


async def test_an_evaluator_that_is_closed_while_it_connects_stays_closed(near, address, leaves):
    evaluator = client(address, retry_s=600.0)
    connecting = asyncio.create_task(evaluator.evaluate(leaves, version=V1))
    await asyncio.sleep(0)  # it waits for the server's first packet
    evaluator.close()
    with pytest.raises(Unavailable, match="the evaluator was closed"):
        await connecting
    assert not evaluator.connected
