"""The device of `zerofleet.testing.devices`: shapes of a model's heads, and time by batch and row."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from inference_server.batcher import Batcher
from inference_server.network import Backend, begin
from inference_server.queueing import RequestQueue
from zerofleet.contracts.encodings import sample_positions
from zerofleet.testing.devices import TimedBackend
from zerofleet.testing.models import manifest_of, uniform_golden


def test_answers_have_the_shapes_and_types_of_the_heads(game):
    backend: Backend = TimedBackend()
    heads = ("policy", "value", "plies_left")
    network = backend.load(Path("unread"), manifest_of(game, uniform_golden(game), heads=heads), max_batch=4)
    states, legal = sample_positions(game, games=2, seed=0)
    for rows in (3, len(states)):  # within the largest batch, and beyond it
        policy, value, plies_left = network.evaluate([states[:1], states[1:rows]], [legal[:1], legal[1:rows]])
        assert (policy.shape, policy.dtype) == ((rows, legal.shape[1]), np.float16)
        assert (value.shape, value.dtype) == ((rows, 2), np.float32)
        assert (plies_left.shape, plies_left.dtype) == ((rows, 1), np.float32)
        assert not policy.any()


class Clock:
    """Clock that moves with the device's sleep alone."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


def batch_of(game, rows):
    """Return the arguments of `evaluate` for a batch of two requests."""
    states, legal = sample_positions(game, games=1, seed=0)
    states, legal = (np.resize(array, (rows, array.shape[1])) for array in (states, legal))
    return [states[:2], states[2:]], [legal[:2], legal[2:]]


def end_of(game, device, clock, *, batches, rows):
    """Return the time at which the last of some batches is done, with as many in flight as the device has slots."""
    network = device.load(Path("unread"), manifest_of(game, uniform_golden(game)), max_batch=rows)
    batch, flights = batch_of(game, rows), deque()
    for _ in range(batches):
        if len(flights) == device.slots:
            flights.popleft().collect()
        flights.append(begin(network, *batch))
    while flights:
        flights.popleft().collect()
    return clock.now_s


def test_a_batch_takes_its_time_and_that_of_each_row(game):
    clock = Clock()
    device = TimedBackend(batch_s=0.25, row_s=0.5, sleep=clock.sleep, clock=clock)
    network = device.load(Path("unread"), manifest_of(game, uniform_golden(game)), max_batch=16)
    network.evaluate(*batch_of(game, 3))
    assert clock.now_s == pytest.approx(0.25 + 3 * 0.5)


def test_one_slot_pays_the_time_of_a_batch_for_each_of_them(game):
    clock = Clock()
    device = TimedBackend(batch_s=0.25, row_s=0.5, sleep=clock.sleep, clock=clock)
    assert end_of(game, device, clock, batches=8, rows=3) == pytest.approx(8 * (0.25 + 3 * 0.5))


@pytest.mark.parametrize("slots", [2, 3])
def test_with_more_slots_the_time_of_a_batch_overlaps_with_the_rows_of_another_whose_arithmetic_is_serial(game, slots):
    clock = Clock()
    device = TimedBackend(batch_s=0.25, row_s=0.5, slots=slots, sleep=clock.sleep, clock=clock)
    assert end_of(game, device, clock, batches=8, rows=3) == pytest.approx(0.25 + 8 * 3 * 0.5)


def test_two_slots_of_batches_with_few_rows_pay_the_time_of_a_batch_for_each_pair(game):
    clock = Clock()
    device = TimedBackend(batch_s=0.9, row_s=0.1, slots=2, sleep=clock.sleep, clock=clock)
    assert end_of(game, device, clock, batches=8, rows=2) == pytest.approx(4 * (0.9 + 0.2) + 0.2)


def test_versions_share_the_arithmetic_of_one_device(game):
    clock = Clock()
    device = TimedBackend(batch_s=0.25, row_s=0.5, slots=2, sleep=clock.sleep, clock=clock)
    manifest = manifest_of(game, uniform_golden(game))
    networks = [device.load(Path("unread"), manifest, max_batch=16) for _ in range(2)]
    flights = [begin(network, *batch_of(game, 3)) for network in networks]
    for flight in flights:
        flight.collect()
    assert clock.now_s == pytest.approx(0.25 + 2 * 3 * 0.5)


async def test_the_device_thread_begins_a_batch_while_another_is_on_the_device(game):
    both = threading.Event()  # set when both are begun; until then the first one stays on the device
    begun = []

    class Held(TimedBackend):
        def queue(self, rows):
            begun.append(rows)
            if len(begun) == 2:
                both.set()
            return 1.0

    device = Held(slots=2, sleep=lambda seconds: assert_set(both), clock=lambda: 0.0)
    network = device.load(Path("unread"), manifest_of(game, uniform_golden(game)), max_batch=4)
    network.count = lambda report: None
    states, legal = (np.concatenate(parts) for parts in batch_of(game, 4))
    async with Batcher(RequestQueue(max_batch=4, max_delay_s=0.0, max_rows=100), slots=device.slots) as batcher:
        await asyncio.gather(*(batcher.evaluate(network, states, legal, expires_s=math.inf) for _ in range(2)))
    assert begun == [4, 4]


def assert_set(event):
    assert event.wait(60)


def test_a_device_without_a_time_does_not_sleep(game):
    clock = Clock()
    device = TimedBackend(sleep=clock.sleep, clock=clock)
    assert end_of(game, device, clock, batches=3, rows=4) == 0.0
