"""The budget of measurements: at most a share of all evaluations, whatever the fleet does."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekeeper.pacing import BURST, EvaluationBudget, PacedEvaluator, TimeBudget
from zerofleet.errors import Unavailable


class Servers:
    """Counters of inference servers; `steps` are the evaluations of other clients before each look."""

    def __init__(self, steps):
        self.steps, self.counters, self.others = iter(steps), {("a", 1): 0}, 0
        self.looks = 0

    async def evaluations(self):
        self.looks += 1
        rows = next(self.steps, 1_000)
        self.others += rows
        self.counters["a", 1] += rows
        return dict(self.counters)

    def evaluate(self, rows):
        self.counters["a", 1] += rows


def counters(*looks):
    """Return a reading of the counters: these, one after the other."""
    coming = iter(looks)

    async def read():
        return next(coming)

    return read


@settings(max_examples=60, deadline=None)
@given(
    share=st.floats(0.01, 0.9),
    steps=st.lists(st.integers(0, 5_000), max_size=30),
    requests=st.lists(st.integers(1, 600), min_size=1, max_size=40),
)
def test_the_gate_never_exceeds_its_share_by_more_than_one_request(share, steps, requests):
    async def play():
        servers = Servers(steps)
        budget, spent = EvaluationBudget(servers.evaluations, share), 0
        first = servers.counters["a", 1]
        for rows in requests:
            await budget.spend(rows)
            servers.evaluate(rows)
            spent += rows
            assert budget.spent == spent
            assert spent <= share * (servers.counters["a", 1] - first) + rows

    asyncio.run(play())


async def test_an_idle_gate_accumulates_no_more_than_the_burst():
    servers = Servers([0, 100 * BURST])
    budget = EvaluationBudget(servers.evaluations, 0.5)
    await budget.spend(1)
    looks, spent = servers.looks, 1
    while servers.looks == looks:
        await budget.spend(64)
        spent += 64
    assert BURST <= spent <= BURST + 2 * 64


async def test_evaluations_before_the_first_look_give_no_credit():
    servers = Servers([1_000_000, 10, 10])
    budget = EvaluationBudget(servers.evaluations, 0.1)
    await budget.spend(1)
    assert (servers.looks, budget.total) == (2, 10)


async def test_a_restarted_server_counts_from_zero_again():
    read = counters({("a", 1): 500, ("b", 1): 0}, {("a", 1): 40, ("b", 1): 60}, {("a", 1): 40, ("b", 1): 61})
    budget = EvaluationBudget(read, 0.5)
    await budget.spend(50)
    assert budget.total == 100
    await budget.spend(1)
    assert budget.total == 101


async def test_a_server_that_was_away_is_credited_when_it_is_back_and_only_for_its_growth():
    read = counters({("a", 1): 500, ("b", 1): 100}, {("a", 1): 510}, {("a", 1): 520, ("b", 1): 130})
    budget = EvaluationBudget(read, 1.0)
    await budget.spend(10)
    assert budget.total == 10
    await budget.spend(10)
    assert budget.total == 50


async def test_an_absent_server_is_an_error_and_nothing_is_spent():
    async def read():
        raise Unavailable("away")

    budget = EvaluationBudget(read, 0.5)
    with pytest.raises(Unavailable):
        await budget.spend(1)
    assert budget.spent == 0


async def test_the_gate_of_an_idle_fleet_waits_until_it_is_cancelled():
    looked = asyncio.Event()

    async def read():
        if reads := read.__dict__.setdefault("reads", []):
            looked.set()
        reads.append(1)
        return {("a", 1): 7}

    budget = EvaluationBudget(read, 0.5)
    waiting = asyncio.ensure_future(budget.spend(5))
    await looked.wait()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.spent == 0


async def test_every_request_of_a_paced_evaluator_is_spent_before_it_is_sent(inference):
    servers, sent = Servers([0, 10]), []

    class Inner:
        async def evaluate(self, batch, *, version):
            sent.append((budget.spent, version))

    budget = EvaluationBudget(servers.evaluations, 1.0)
    await PacedEvaluator(Inner(), budget).evaluate(np.zeros(3), version=4)
    assert sent == [(3, 4)]


class Time:
    """A clock that passes only while somebody sleeps, or when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds


@settings(max_examples=60, deadline=None)
@given(
    share=st.floats(0.01, 0.9),
    durations=st.lists(st.floats(0.0001, 0.5), min_size=1, max_size=40),
    pauses=st.lists(st.floats(0.0, 5.0), min_size=40, max_size=40),
)
def test_requests_never_take_more_than_their_share_of_the_time_by_more_than_one(share, durations, pauses):
    async def play():
        clock, taken = Time(), 0.0
        began = clock.now
        budget = TimeBudget(share, clock=clock, sleep=clock.sleep)
        for duration, pause in zip(durations, pauses, strict=False):
            clock.now += pause
            await budget.spend(16)
            assert taken <= share * (clock.now - began)
            clock.now += duration
            budget.took(duration)
            taken += duration
        assert budget.spent_s == pytest.approx(taken)

    asyncio.run(play())


async def test_a_gate_that_was_idle_for_an_hour_has_credit_for_two_seconds():
    clock = Time()
    budget = TimeBudget(0.5, clock=clock, sleep=clock.sleep)
    clock.now += 3600.0
    for _ in range(20):
        await budget.spend(1)
        assert clock.now == 3700.0
        budget.took(0.1)
    await budget.spend(1)
    assert clock.now > 3700.0


async def test_the_duration_of_a_request_that_fails_is_spent_too():
    budget = TimeBudget(1.0)

    class Inner:
        async def evaluate(self, batch, *, version):
            raise Unavailable("away")

    with pytest.raises(Unavailable):
        await PacedEvaluator(Inner(), budget).evaluate(np.zeros(3), version=4)
    assert budget.spent_s > 0.0
