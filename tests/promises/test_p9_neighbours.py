"""P9 in one process: callers that leave, fail, come late or ask for much, and the neighbours that must not wait for them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import numpy as np
import pytest
from promise_tools import borrowed

from inference_server.batcher import Batcher
from inference_server.queueing import RequestQueue
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import Unavailable

batching = borrowed("promise_batching", "inference_server/test_batcher.py")


@pytest.fixture
def echo():
    return batching.Echo()


@asynccontextmanager
async def held(echo, *, max_rows: int = 1000):
    """Yield a batcher whose device is held by a first request, and a group of tasks; then wait for all answers."""
    async with (
        asyncio.timeout(60),
        Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=max_rows)) as batcher,
        asyncio.TaskGroup() as group,
    ):
        try:
            await batching.occupy(batcher, echo, group)
            yield batcher, group
        finally:
            echo.gate.set()


def marks(tasks) -> list[int]:
    return [int(task.result().output[1][0, 0]) for task in tasks]


class Steps:
    """Gate of a network that lets one batch pass at a time, and all of them once it is set."""

    def __init__(self) -> None:
        self._passes = threading.Semaphore(0)

    def step(self) -> None:
        self._passes.release()

    def set(self) -> None:
        self._passes.release(1000)

    def clear(self) -> None:
        """Closed from the beginning."""

    def wait(self, timeout_s: float) -> bool:
        return self._passes.acquire(timeout=timeout_s)


@pytest.mark.parametrize("place", [0, 1, 3])
async def test_p9_a_caller_that_leaves_during_its_batch_delays_no_batch_mate(echo, place):
    echo.gate = steps = Steps()
    async with held(echo) as (batcher, group):
        tasks = [group.create_task(batching.ask(batcher, echo, mark)) for mark in range(4)]
        await asyncio.sleep(0)
        echo.entered.clear()
        steps.step()
        assert await asyncio.to_thread(echo.entered.wait, 60)  # the four are one batch now, on the device
        tasks[place].cancel()
        await asyncio.wait([tasks[place]])
        echo.gate.set()
        await batching.ask(batcher, echo, 9)  # of a later batch, which is delivered later
        others = [task for task in tasks if task is not tasks[place]]
        assert all(task.done() for task in others)
        assert marks(others) == [mark for mark in range(4) if mark != place]
    assert echo.batches == [[2], [2, 2, 2, 2], [2]]
    assert len(echo.reports) == 3


async def test_p9_a_caller_that_leaves_the_queue_costs_the_device_nothing(echo):
    async with held(echo) as (batcher, group):
        tasks = [group.create_task(batching.ask(batcher, echo, mark)) for mark in range(4)]
        await asyncio.sleep(0)
        for task in tasks[:3]:
            task.cancel()
        await asyncio.wait(tasks[:3])
        assert batcher.waiting_rows == 2
        echo.gate.set()
    assert marks(tasks[3:]) == [3]
    assert echo.batches == [[2], [2]]


async def test_p9_requests_that_were_left_take_no_room_from_others(echo):
    async with held(echo, max_rows=100) as (batcher, group):
        leaving = [group.create_task(batching.ask(batcher, echo, 1, rows=50)) for _ in range(2)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        staying = group.create_task(batching.ask(batcher, echo, 2, rows=60))
        await asyncio.sleep(0)
        echo.gate.set()
    assert marks([staying]) == [2]


async def test_p9_a_request_that_comes_too_late_fails_alone(echo):
    async with held(echo) as (batcher, group):
        late = group.create_task(_outcome(batching.ask(batcher, echo, 1, expires_s=time.monotonic())))
        fresh = group.create_task(batching.ask(batcher, echo, 2))
        await asyncio.sleep(0)
        echo.gate.set()
    assert isinstance(late.result(), Unavailable)
    assert marks([fresh]) == [2]
    assert echo.batches == [[2], [2]]


async def test_p9_a_request_that_breaks_its_batch_fails_alone(echo):
    echo.poison = 13
    async with held(echo) as (batcher, group):
        tasks = [group.create_task(_outcome(batching.ask(batcher, echo, mark))) for mark in (12, 13, 14)]
        await asyncio.sleep(0)
        echo.gate.set()
    assert isinstance(tasks[1].result(), RuntimeError)
    assert marks([tasks[0], tasks[2]]) == [12, 14]


class Noting(batching.Echo):
    """Network that adds its name and the rows of each batch to a list which several networks share."""

    def __init__(self, name: str, order: list[tuple[str, int]]) -> None:
        super().__init__()
        self._name, self._order = name, order

    def evaluate(self, states, legal):
        answer = super().evaluate(states, legal)
        self._order.append((self._name, len(answer[1])))
        return answer


async def test_p9_blocks_of_one_version_do_not_hold_up_a_small_request_of_another():
    order: list[tuple[str, int]] = []
    large, small = Noting("large", order), Noting("small", order)
    async with held(large) as (batcher, group):
        for _ in range(8):
            group.create_task(batching.ask(batcher, large, 1, rows=64))
        group.create_task(batching.ask(batcher, small, 2, rows=1))
        await asyncio.sleep(0)
        large.gate.set()
    assert order.index(("small", 1)) <= 2  # after the request that held the device, and one block


async def test_p9_urgent_callers_without_pause_leave_a_share_to_the_others():
    order: list[tuple[str, int]] = []
    network = Noting("network", order)
    urgent = np.zeros((64, 3), np.uint8), np.zeros((64, 9), np.int16)
    async with held(network) as (batcher, group):
        for _ in range(12):
            group.create_task(batcher.evaluate(network, *urgent, expires_s=batching.FOREVER, priority=Priority.HIGH))
        group.create_task(batching.ask(batcher, network, 5, rows=63))
        await asyncio.sleep(0)
        network.gate.set()
    first = next(place for place, (_, rows) in enumerate(order[1:]) if rows != 64)
    assert first <= 4  # one row in four belongs to the low priority


async def _outcome(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return error
