"""The device thread and its callers: cancellation, deadlines, faults, closing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest

from inference_server.batcher import Batcher
from inference_server.queueing import SLICE_S, BatchReport, RequestQueue
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import Overloaded, Unavailable
from zerofleet.evaluators.uniform import uniform_policy

FOREVER = float("inf")


class Echo:
    """Answers each row with its first byte; the gate holds the device thread."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.batches: list[list[int]] = []
        self.reports: list[BatchReport] = []
        self.poison: int | None = None

    def evaluate(self, states, legal):
        self.entered.set()
        assert self.gate.wait(60)
        self.batches.append([len(rows) for rows in states])
        rows = np.concatenate(states)
        if self.poison is not None and (rows[:, 0] == self.poison).any():
            raise RuntimeError("poisoned")
        value = rows[:, :1].astype(np.float32)
        return uniform_policy(np.concatenate(legal)), value, value + 0.5

    def count(self, report):
        self.reports.append(report)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def batcher() -> AsyncIterator[Batcher]:
    async with Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)) as running:
        yield running


def ask(batcher: Batcher, network: Echo, mark: int, *, rows: int = 2, **settings):
    states = np.full((rows, 3), mark, np.uint8)
    return batcher.evaluate(network, states, np.zeros((rows, 9), np.int16), **{"expires_s": FOREVER, **settings})


async def occupy(batcher: Batcher, echo: Echo, group: asyncio.TaskGroup) -> asyncio.Task:
    """Start a request that holds the device until the gate opens."""
    echo.gate.clear()
    task = group.create_task(ask(batcher, echo, 99))
    assert await asyncio.to_thread(echo.entered.wait, 60)
    return task


async def test_each_caller_gets_its_own_rows(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        tasks = [group.create_task(ask(batcher, echo, mark, rows=mark)) for mark in range(1, 9)]
        await asyncio.sleep(0)
        echo.gate.set()
    for mark, task in enumerate(tasks, start=1):
        assert task.result().output[1].tolist() == [[mark]] * mark
        assert task.result().output[2].tolist() == [[mark + 0.5]] * mark
    assert echo.batches == [[2], [1, 2, 3, 4, 5, 6, 7, 8]]


async def test_a_cancelled_caller_does_not_block_the_rest_of_its_batch(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        tasks = [group.create_task(ask(batcher, echo, mark)) for mark in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        assert batcher.waiting_rows == 6
        echo.gate.set()
    assert tasks[0].cancelled()
    assert [task.result().output[1][0, 0] for task in tasks[1:]] == [1, 2, 3]
    assert echo.batches == [[2], [2, 2, 2]]


async def test_a_caller_cancelled_during_its_batch_does_not_affect_the_others(batcher, echo):
    async with asyncio.TaskGroup() as group:
        blocked = await occupy(batcher, echo, group)
        other = group.create_task(ask(batcher, echo, 5))
        await asyncio.sleep(0)
        blocked.cancel()
        await asyncio.wait([blocked])
        echo.gate.set()
    assert other.result().output[1][0, 0] == 5


async def test_a_deadline_ends_the_wait_and_frees_its_room_while_the_device_is_busy(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        patient = group.create_task(ask(batcher, echo, 3, expires_s=time.monotonic() + 600.0))
        late = [_outcome(ask(batcher, echo, mark, rows=40, expires_s=time.monotonic() + 0.01)) for mark in (1, 2)]
        for found in await asyncio.gather(*late):  # the gate is closed
            assert isinstance(found, Unavailable)
            assert "deadline" in str(found)
        assert batcher.waiting_rows == 2
        fresh = group.create_task(ask(batcher, echo, 4, rows=60))
        await asyncio.sleep(0)
        echo.gate.set()
    assert (patient.result().output[1][0, 0], fresh.result().output[1][0, 0]) == (3, 4)


async def test_later_requests_do_not_postpone_the_end_of_a_wait(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        planned = set()
        for after_s in (100.0, 100.01, 100.04, 100.2):
            group.create_task(_outcome(ask(batcher, echo, 1, expires_s=time.monotonic() + after_s)))
            await asyncio.sleep(0)
            planned.add(batcher._sweep_timer)
        assert len(planned) == 1
        group.create_task(_outcome(ask(batcher, echo, 1, expires_s=time.monotonic() + 1.0)))
        await asyncio.sleep(0)
        assert batcher._sweep_timer not in planned  # an earlier one brings it forward
        echo.gate.set()


async def test_a_request_whose_deadline_has_passed_is_dropped(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        late = group.create_task(_outcome(ask(batcher, echo, 1, expires_s=time.monotonic())))
        fresh = group.create_task(ask(batcher, echo, 2))
        await asyncio.sleep(0)
        echo.gate.set()
    assert isinstance(late.result(), Unavailable)
    assert "deadline" in str(late.result())
    assert fresh.result().output[1][0, 0] == 2
    assert echo.batches == [[2], [2]]


async def test_a_fault_reaches_only_the_request_that_causes_it(batcher, echo):
    echo.poison = 13
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        tasks = [group.create_task(_outcome(ask(batcher, echo, mark))) for mark in (12, 13, 14)]
        await asyncio.sleep(0)
        echo.gate.set()
    outcomes = [task.result() for task in tasks]
    assert [type(outcome) for outcome in outcomes][1] is RuntimeError
    assert [outcomes[0].output[1][0, 0], outcomes[2].output[1][0, 0]] == [12, 14]


async def test_overload_is_refused_at_once_and_later_requests_succeed(batcher, echo):
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        waiting = group.create_task(ask(batcher, echo, 1, rows=90))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await ask(batcher, echo, 2, rows=20)
        echo.gate.set()
        await waiting
        assert (await ask(batcher, echo, 3, rows=20)).output[1][0, 0] == 3


async def split(batcher: Batcher, echo: Echo, group: asyncio.TaskGroup, *, rows: int) -> asyncio.Task:
    """Start a request of `rows`, first byte ascending, that is evaluated in parts of 16 rows behind one of high priority."""
    await occupy(batcher, echo, group)
    batcher._queue.note_speed(64, 4 * SLICE_S)
    urgent = np.zeros((1, 3), np.uint8), np.zeros((1, 9), np.int16)
    group.create_task(batcher.evaluate(echo, *urgent, expires_s=FOREVER, priority=Priority.HIGH))
    states = np.repeat(np.arange(rows, dtype=np.uint8)[:, None], 3, axis=1)
    task = group.create_task(_outcome(batcher.evaluate(echo, states, np.zeros((rows, 9), np.int16), expires_s=FOREVER)))
    await asyncio.sleep(0)
    return task


async def test_a_split_request_is_answered_whole_and_counted_once(batcher, echo):
    async with asyncio.TaskGroup() as group:
        task = await split(batcher, echo, group, rows=50)
        echo.gate.set()
    answer = task.result()
    assert echo.batches == [[2], [1], [16], [16], [16], [2]]
    assert [head.shape[0] for head in answer.output] == [50, 50, 50]
    assert answer.output[1][:, 0].tolist() == list(range(50))
    assert [(report.requests, [wait.priority for wait in report.waits]) for report in echo.reports] == [
        (1, [Priority.LOW]),
        (1, [Priority.HIGH]),
        (1, [Priority.LOW]),
        (1, []),
        (1, []),
        (1, []),
    ]


async def test_a_split_request_fails_with_the_first_part_that_fails(batcher, echo):
    echo.poison = 20
    async with asyncio.TaskGroup() as group:
        task = await split(batcher, echo, group, rows=64)
        echo.gate.set()
    assert isinstance(task.result(), RuntimeError)
    assert batcher.waiting_rows == 0


async def test_the_parts_of_a_cancelled_request_leave_the_queue(batcher, echo):
    async with asyncio.TaskGroup() as group:
        task = await split(batcher, echo, group, rows=64)
        task.cancel()
        await asyncio.wait([task])
        assert batcher.waiting_rows == 1
        echo.gate.set()


async def test_two_versions_interleave(batcher, echo):
    other = Echo()
    async with asyncio.TaskGroup() as group:
        await occupy(batcher, echo, group)
        tasks = [group.create_task(ask(batcher, network, mark, rows=9)) for mark, network in enumerate([echo, other] * 3)]
        await asyncio.sleep(0)
        echo.gate.set()
    assert [task.result().output[1][0, 0] for task in tasks] == [0, 1, 2, 3, 4, 5]
    assert other.batches == [[9, 9, 9]]


async def test_closing_answers_queued_requests_and_refuses_new_ones(echo):
    batcher = Batcher(RequestQueue(max_batch=64, max_delay_s=60.0, max_rows=100))
    async with batcher, asyncio.TaskGroup() as group:
        await occupy_slow(batcher, echo, group)
        waiting = group.create_task(ask(batcher, echo, 7, rows=1))
        await asyncio.sleep(0)
        closing = group.create_task(batcher.aclose())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await ask(batcher, echo, 8)
        echo.gate.set()
        await closing
    assert waiting.result().output[1][0, 0] == 7


async def occupy_slow(batcher: Batcher, echo: Echo, group: asyncio.TaskGroup) -> None:
    """As `occupy`, with a request large enough not to wait for company."""
    echo.gate.clear()
    group.create_task(ask(batcher, echo, 99, rows=60))
    assert await asyncio.to_thread(echo.entered.wait, 60)


async def test_the_report_counts_requests_and_rows_of_a_batch(batcher, echo):
    await ask(batcher, echo, 1, rows=5)
    (report,) = echo.reports
    assert (report.rows, report.requests, len(report.waits)) == (5, 1, 1)
    assert report.compute_s >= 0


async def test_the_report_has_the_processor_time_of_the_device_thread_since_the_batch_before(echo):
    readers = []

    def thread_clock() -> float:
        readers.append(threading.current_thread().name)
        return (0.5, 2.0)[len(readers) - 1]

    queue = RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)
    async with Batcher(queue, thread_clock=thread_clock) as batcher:
        await ask(batcher, echo, 1)
        await ask(batcher, echo, 2)
    assert [report.processor_s for report in echo.reports] == [0.5, 1.5]
    assert readers == ["device"] * 2


async def _outcome(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return error
