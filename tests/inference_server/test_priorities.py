"""Requests of high priority overtake those of low priority, which never starve."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_server.queueing import ALERT_S, HIGH_SHARE, SLICE_S, Part, RequestQueue, Ticket
from zerofleet.contracts.priorities import MAX_PRIORITY, Priority, announced, level_of
from zerofleet.errors import InvalidRequest, Overloaded

HIGH, LOW = Priority.HIGH, Priority.LOW
MAX_BATCH = 64
ENOUGH = 8  # an eighth of it


class Version:
    """Something to group by."""

    def evaluate(self, states, legal):
        raise AssertionError("the queue evaluates nothing")

    def count(self, report):
        raise AssertionError("the queue counts nothing")


A, B = Version(), Version()


@pytest.fixture(scope="module")
def loop():
    """A loop to make futures in; it never runs."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def ticket(loop):
    """Make a request."""
    return lambda rows, priority, network=A, *, arrived_s=0.0: made_ticket(loop, rows, priority, network, arrived_s)


def made_ticket(loop, rows: int, priority: Priority, network: Version, arrived_s: float) -> Ticket:
    states, legal = np.zeros((rows, 3), np.uint8), np.zeros((rows, 9), np.int16)
    return Ticket(network, states, legal, arrived_s, float("inf"), loop.create_future(), priority)


def queue(*, max_delay_s: float = 0.0, max_rows: int = 100_000) -> RequestQueue:
    return RequestQueue(max_batch=MAX_BATCH, max_delay_s=max_delay_s, max_rows=max_rows)


def alert_queue(ticket) -> RequestQueue:
    """Return the queue of a device that takes four slices for a full batch, where a request of high priority waits."""
    waiting = queue()
    waiting.note_speed(64, 4 * SLICE_S)
    waiting.put(ticket(1, HIGH, B))
    return waiting


def shown(batch: list[Part]) -> list[tuple[int, int]]:
    """Return priority and rows of each part."""
    return [(int(part.ticket.priority), len(part)) for part in batch]


def test_a_request_of_high_priority_overtakes_every_block_of_self_play(ticket):
    waiting = queue()
    for _ in range(5):
        waiting.put(ticket(64, LOW))
    waiting.put(ticket(1, HIGH))
    assert [shown(waiting.take(0.0)) for _ in range(3)] == [[(1, 1)], [(2, 64)], [(2, 64)]]


def test_a_request_of_high_priority_does_not_wait_for_company_while_self_play_waits(ticket):
    waiting = queue(max_delay_s=1.0)
    waiting.put(ticket(1, HIGH))
    assert waiting.take(0.5) == []
    waiting.put(ticket(2, LOW, B))
    assert shown(waiting.take(0.5)) == [(1, 1)]


def test_self_play_of_the_same_version_fills_up_a_batch_of_high_priority(ticket):
    waiting = queue()
    for rows, priority, network in ((20, LOW, A), (20, LOW, B), (30, HIGH, A), (5, LOW, A)):
        waiting.put(ticket(rows, priority, network))
    assert shown(waiting.take(0.0)) == [(1, 30), (2, 20), (2, 5)]
    assert shown(waiting.take(0.0)) == [(2, 20)]


def test_a_request_of_high_priority_joins_a_batch_of_self_play_that_is_due(ticket):
    waiting = queue()
    for _ in range(4):
        waiting.put(ticket(64, HIGH, B))
    waiting.put(ticket(60, LOW))
    assert [shown(waiting.take(0.0)) for _ in range(3)] == [[(1, 64)]] * 3
    waiting.put(ticket(2, HIGH))
    assert shown(waiting.take(0.0)) == [(2, 60), (1, 2)]


def test_self_play_gets_a_quarter_of_the_rows_from_a_device_that_high_priority_saturates(ticket):
    waiting = queue()
    for _ in range(80):
        waiting.put(ticket(64, HIGH))
        waiting.put(ticket(64, LOW))
    first = [shown(waiting.take(0.0))[0][0] for _ in range(80)]
    assert first == [1, 1, 1, 2] * 20


def test_tiny_requests_of_high_priority_count_as_the_rows_that_keep_the_device_busy(ticket):
    waiting = queue()
    waiting.put(ticket(64, LOW))
    batches = 0
    while True:
        waiting.put(ticket(1, HIGH, B))
        batches += 1
        if shown(waiting.take(0.0))[0][0] == 2:
            break
    assert batches == 1 + HIGH_SHARE * 64 // ENOUGH


def test_large_requests_of_self_play_are_split_only_while_requests_of_high_priority_arrive(ticket):
    waiting = queue()
    waiting.note_speed(64, 4 * SLICE_S)
    waiting.put(ticket(64, LOW))
    assert shown(waiting.take(0.0)) == [(2, 64)]
    waiting.put(ticket(1, HIGH, arrived_s=5.0))
    waiting.put(ticket(64, LOW))
    assert shown(waiting.take(5.0)) == [(1, 1)]
    split = ticket(64, LOW)
    waiting.put(split)
    assert shown(waiting.take(5.0 + ALERT_S)) == [(2, 16)]
    assert waiting.rows == 112
    assert shown(waiting.take(5.1 + ALERT_S)) == [(2, 48)]


def test_the_parts_of_a_request_cover_it_in_order(ticket):
    waiting = alert_queue(ticket)
    split = ticket(50, LOW)
    waiting.put(split)
    assert shown(waiting.take(0.0)) == [(1, 1)]
    parts = [part for _ in range(4) for part in waiting.take(0.0)]
    assert [(part.start, part.stop, part.is_first, part.is_last) for part in parts] == [
        (0, 16, True, False),
        (16, 32, False, False),
        (32, 48, False, False),
        (48, 50, False, True),
    ]
    assert waiting.rows == 0


def test_a_fast_device_splits_nothing(ticket):
    waiting = queue()
    waiting.note_speed(64, SLICE_S)
    waiting.put(ticket(1, HIGH, B))
    waiting.put(ticket(64, LOW))
    assert [shown(waiting.take(0.0)) for _ in range(2)] == [[(1, 1)], [(2, 64)]]


def test_the_rest_of_a_discarded_request_leaves_the_queue(ticket):
    waiting = alert_queue(ticket)
    split = ticket(64, LOW)
    waiting.put(split)
    waiting.take(0.0)
    assert shown(waiting.take(0.0)) == [(2, 16)]
    waiting.discard(split)
    assert waiting.rows == 0
    assert waiting.take_any() == []


REQUESTS = st.tuples(st.sampled_from([HIGH, HIGH, LOW]), st.sampled_from([A, B]), st.integers(1, 150))
EVENTS = st.lists(st.one_of(REQUESTS, st.none()), max_size=120)


@given(events=EVENTS, row_s=st.sampled_from([0.0, SLICE_S / 64, SLICE_S / 16]))
@hypothesis.settings(max_examples=300, deadline=None)
def test_low_priority_that_waits_all_the_time_gets_its_share_whatever_arrives(loop, events, row_s):
    """Independent account: rows of each priority since low priority began to wait; `None` takes a batch."""
    waiting = queue()
    if row_s:
        waiting.note_speed(64, 64 * row_s)
    high_rows, low_rows, largest, low_left, seen, put = 0, 0, 0, 0, 0, 0
    clock_s = 0.0
    for event in [*events, *[None] * len(events)]:
        clock_s += 0.01
        if event is not None:
            priority, network, rows = event
            if priority is LOW and low_left == 0:
                high_rows, low_rows, largest = 0, 0, 0  # it begins to wait
            waiting.put(made_ticket(loop, rows, priority, network, clock_s))
            put += rows
            low_left += rows if priority is LOW else 0
            largest = max(largest, rows if priority is LOW else 0, MAX_BATCH)
            continue
        waited = low_left > 0
        batch = waiting.take(clock_s)
        assert bool(batch) == (put > seen)
        assert len({part.ticket.network for part in batch}) <= 1
        assert sum(map(len, batch)) <= MAX_BATCH or len(batch) == 1
        seen += sum(map(len, batch))
        low = sum(len(part) for part in batch if part.ticket.priority is LOW)
        low_left -= low
        low_rows += low
        if waited and batch and batch[0].ticket.priority is HIGH:
            high_rows += max(ENOUGH, sum(map(len, batch)) - low)
        # One batch of low priority may be outstanding, and the batch of high priority that completed the debt.
        if low_left:
            assert high_rows <= HIGH_SHARE * (low_rows + largest) + 150
        assert waiting.rows == put - seen


@given(rows=st.lists(st.integers(1, 150), min_size=1, max_size=30), seed=st.integers(0, 1000))
@hypothesis.settings(max_examples=100, deadline=None)
def test_every_row_is_taken_once_in_order(loop, rows, seed):
    rng = np.random.default_rng(seed)
    waiting = queue()
    waiting.note_speed(64, 8 * SLICE_S)
    tickets = [made_ticket(loop, each, HIGH if rng.random() < 0.3 else LOW, A, 0.0) for each in rows]
    for each in tickets:
        waiting.put(each)
    reached = dict.fromkeys(tickets, 0)
    while batch := waiting.take(0.5):
        for part in batch:
            assert part.start == reached[part.ticket]
            reached[part.ticket] = part.stop
    assert all(reached[each] == len(each) for each in tickets)


def test_the_levels_are_those_of_triton():
    assert [level_of(number) for number in (0, 1, 2, 3, MAX_PRIORITY)] == [LOW, HIGH, LOW, LOW, LOW]
    for number in (-1, MAX_PRIORITY + 1):
        with pytest.raises(InvalidRequest, match="want 0"):
            level_of(number)


@pytest.mark.parametrize(
    ("headers", "level"),
    [
        ([("zerofleet-priority", "1")], HIGH),
        ([("x-request-id", "1"), ("zerofleet-priority", "1")], HIGH),
        ([], LOW),
        ([("zerofleet-priority", "2")], LOW),
        ([("zerofleet-priority", "high")], LOW),
        ([("zerofleet-priority", "1,1")], LOW),
        ([("priority", "1")], LOW),
    ],
)
def test_a_header_announces_high_priority_by_exactly_1(headers, level):
    assert announced(headers) is level


def test_an_eighth_beyond_the_bound_is_kept_for_high_priority(ticket):
    waiting = queue(max_rows=128)
    waiting.put(ticket(64, LOW))
    waiting.put(ticket(64, LOW))
    with pytest.raises(Overloaded, match=r"128 positions wait .* 1 more exceed 128"):
        waiting.put(ticket(1, LOW))
    waiting.put(ticket(16, HIGH))
    assert (waiting.refusing(LOW), waiting.refusing(HIGH)) == (True, False)
    with pytest.raises(Overloaded, match=r"144 positions wait .* 1 more exceed 144"):
        waiting.put(ticket(1, HIGH))
    assert waiting.refusing(HIGH)


def test_high_priority_is_admitted_again_before_self_play(ticket):
    waiting = queue(max_rows=128)
    held = [ticket(8, LOW) for _ in range(16)]
    for each in held:
        waiting.put(each)
    waiting.put(ticket(16, HIGH))
    for priority in (LOW, HIGH):
        with pytest.raises(Overloaded):
            waiting.put(ticket(1, priority))
    seen = []
    while waiting.refusing(LOW):
        seen.append((waiting.rows, waiting.refusing(HIGH)))
        waiting.discard(held.pop())
    assert seen == [(144, True), (136, True), (128, False), (120, False)]
    assert waiting.rows == 112


def test_high_priority_leaves_an_eighth_of_the_queue_to_self_play(ticket):
    waiting = queue(max_rows=128)
    held = [ticket(16, HIGH) for _ in range(7)]
    for each in held:
        waiting.put(each)
    with pytest.raises(Overloaded, match=r"112 positions of priority 1 wait .* 1 more exceed 112"):
        waiting.put(ticket(1, HIGH))
    waiting.put(ticket(16, LOW))
    assert (waiting.refusing(HIGH), waiting.refusing(LOW)) == (True, False)
    waiting.discard(held.pop())
    assert not waiting.refusing(HIGH)
    waiting.put(ticket(16, HIGH))


def test_self_play_keeps_its_share_when_matches_ask_for_more_than_the_queue_holds(ticket):
    waiting, taken = queue(max_rows=256), Counter()
    for _ in range(200):
        for priority in (HIGH, LOW):
            for _ in range(32):  # callers that ask again, whatever was refused before
                if not waiting.refusing(priority):
                    with contextlib.suppress(Overloaded):
                        waiting.put(ticket(16, priority))
        for part in waiting.take(0.0):
            taken[part.ticket.priority] += len(part)
    assert 0.2 < taken[LOW] / taken.total() < 0.3


def test_rows_owed_to_self_play_are_forgotten_when_none_of_it_waits(ticket):
    waiting = queue()
    cancelled = ticket(64, LOW, B)
    waiting.put(cancelled)
    for _ in range(3):
        waiting.put(ticket(64, HIGH))
        waiting.take(0.0)
    waiting.discard(cancelled)
    waiting.put(ticket(64, LOW, B))
    waiting.put(ticket(64, HIGH))
    assert [shown(waiting.take(0.0)) for _ in range(2)] == [[(1, 64)], [(2, 64)]]
