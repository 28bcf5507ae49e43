"""Which requests make a batch."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from inference_server.queueing import Part, RequestQueue, Ticket
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import Overloaded


class Version:
    """Something to group by."""

    def __init__(self, name: str) -> None:
        self.name = name

    def evaluate(self, states, legal):
        raise AssertionError("the queue evaluates nothing")

    def count(self, report):
        raise AssertionError("the queue counts nothing")


A, B = Version("a"), Version("b")


def ticket(rows: int, network: Version = A, *, arrived_s: float = 0.0) -> Ticket:
    loop = asyncio.get_running_loop()
    states, legal = np.zeros((rows, 3), np.uint8), np.zeros((rows, 9), np.int16)
    return Ticket(network, states, legal, arrived_s, float("inf"), loop.create_future())


def queue(*, max_batch: int = 64, max_delay_s: float = 1.0, max_rows: int = 1000) -> RequestQueue:
    return RequestQueue(max_batch=max_batch, max_delay_s=max_delay_s, max_rows=max_rows)


def sizes(batch: list[Part]) -> list[int]:
    return [len(each) for each in batch]


async def test_requests_of_one_version_share_a_batch_up_to_its_size():
    waiting = queue(max_batch=64)
    for rows in (30, 30, 30):
        waiting.put(ticket(rows))
    assert sizes(waiting.take(0.0)) == [30, 30]
    assert sizes(waiting.take(0.0)) == [30]
    assert waiting.rows == 0


async def test_a_batch_holds_one_version():
    waiting = queue()
    for network in (A, B, A):
        waiting.put(ticket(10, network))
    first, second = waiting.take(0.0), waiting.take(0.0)
    assert {each.ticket.network for each in first} == {A}
    assert {each.ticket.network for each in second} == {B}
    assert sizes(first) == [10, 10]


async def test_versions_take_turns_whatever_the_load_of_one():
    waiting = queue(max_batch=64)
    for _ in range(5):
        waiting.put(ticket(64, A))
    waiting.put(ticket(64, B))
    assert [waiting.take(0.0)[0].ticket.network.name for _ in range(6)] == ["a", "b", "a", "a", "a", "a"]


async def test_a_small_request_waits_for_one_block_at_most():
    waiting = queue(max_batch=64, max_delay_s=0.0)
    for _ in range(5):
        waiting.put(ticket(64))
    waiting.put(ticket(1))
    assert [sizes(waiting.take(0.0)) for _ in range(3)] == [[64], [1], [64]]


async def test_small_requests_fill_up_a_batch_of_large_ones():
    waiting = queue(max_batch=64)
    for rows in (40, 1, 2):
        waiting.put(ticket(rows))
    assert sizes(waiting.take(0.0)) == [40, 1, 2]


async def test_the_oldest_block_is_not_passed_over_by_smaller_ones():
    waiting = queue(max_batch=64)
    for rows in (60, 30, 30):
        waiting.put(ticket(rows))
    assert sizes(waiting.take(0.0)) == [60]
    assert sizes(waiting.take(0.0)) == [30, 30]


async def test_a_request_larger_than_a_batch_is_evaluated_alone():
    waiting = queue(max_batch=64)
    waiting.put(ticket(200))
    waiting.put(ticket(1))
    assert sizes(waiting.take(0.0)) == [200]


async def test_few_rows_wait_for_more_but_no_longer_than_the_delay():
    waiting = queue(max_batch=64, max_delay_s=0.5)
    waiting.put(ticket(2, arrived_s=10.0))
    assert waiting.take(10.4) == []
    assert waiting.ripe_at_s() == 10.5
    assert sizes(waiting.take(10.5)) == [2]
    assert waiting.ripe_at_s() is None


async def test_enough_rows_do_not_wait():
    waiting = queue(max_batch=64, max_delay_s=0.5)
    for _ in range(8):
        waiting.put(ticket(1))
    assert len(waiting.take(0.0)) == 8


async def test_a_full_queue_refuses_and_recovers():
    waiting = queue(max_rows=100)
    waiting.put(ticket(64))
    with pytest.raises(Overloaded, match=r"64 positions wait .* 40 more exceed 100"):
        waiting.put(ticket(40))
    waiting.put(ticket(36))
    waiting.take(0.0)
    waiting.put(ticket(40))


async def test_once_a_request_did_not_fit_the_queue_refuses_until_an_eighth_of_it_is_free():
    waiting = queue(max_batch=64, max_rows=128)
    tickets = [ticket(8) for _ in range(16)]
    for each in tickets:
        waiting.put(each)
    assert not waiting.refusing(Priority.LOW)
    with pytest.raises(Overloaded):
        waiting.put(ticket(8))
    assert waiting.refusing(Priority.LOW)
    waiting.discard(tickets[0])
    assert waiting.refusing(Priority.LOW)
    waiting.discard(tickets[1])
    assert not waiting.refusing(Priority.LOW)
    waiting.put(ticket(8))
    assert not waiting.refusing(Priority.LOW)


async def test_an_empty_queue_accepts_a_request_beyond_its_bound():
    waiting = queue(max_rows=10)
    waiting.put(ticket(64))
    assert sizes(waiting.take(0.0)) == [64]


async def test_a_discarded_request_leaves_no_trace():
    waiting = queue()
    first, second = ticket(10), ticket(20)
    waiting.put(first)
    waiting.put(second)
    waiting.discard(first)
    waiting.discard(first)
    assert waiting.rows == 20
    assert [part.ticket for part in waiting.take(0.0)] == [second]
    waiting.discard(second)
    assert waiting.rows == 0


async def test_closing_takes_the_queued_requests_without_delay():
    waiting = queue(max_delay_s=100.0)
    waiting.put(ticket(1))
    assert sizes(waiting.take_any()) == [1]
    assert waiting.take_any() == []
