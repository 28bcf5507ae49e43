"""Ratings of the ladder: beside the event loop, seldom, of new games alone, and the last one for certain."""

import asyncio
import threading

import pytest

from gatekeeper import ratings
from zerofleet.strength.ladders.standings import counted_games

MODEL = "tic_tac_toe"


class Rater:
    """The computation of ratings, which can be held up, with the threads that it ran in."""

    def __init__(self, monkeypatch):
        self.threads, self.began, self.may_end = [], threading.Event(), threading.Event()
        self.may_end.set()
        self._rate = ratings.standings_of
        monkeypatch.setattr(ratings, "standings_of", self)

    def __call__(self, counted):
        self.threads.append(threading.current_thread())
        self.began.set()
        assert self.may_end.wait(60)
        return self._rate(counted)

    def hold(self):
        self.began.clear()
        self.may_end.clear()


@pytest.fixture
def rater(monkeypatch):
    return Rater(monkeypatch)


async def test_calls_are_answered_while_the_ladder_is_rated(open_gate, rater):
    async with open_gate() as gate:
        await gate.offer()
        rater.hold()
        call = asyncio.ensure_future(gate.client.ladder(MODEL))
        await asyncio.to_thread(rater.began.wait)
        assert (await gate.client.champion(MODEL)).version == 1
        assert not call.done()
        rater.may_end.set()
        assert [rung.name for rung in await call] == ["random"]


async def test_the_same_games_are_rated_once(open_gate, rater):
    async with open_gate() as gate:
        await gate.offer()
        calls = await asyncio.gather(*(gate.client.ladder(MODEL) for _ in range(5)))
        assert await gate.client.ladder(MODEL) == calls[0]
    assert len(rater.threads) == 1
    assert threading.main_thread() not in rater.threads


async def test_calls_within_a_period_get_the_same_ratings(open_gate, inference, monkeypatch):
    inference.stubborn = {1}
    async with open_gate() as gate:
        await gate.offer()
        monkeypatch.setattr(ratings, "PERIOD_S", 1000.0)
        before = await gate.client.ladder(MODEL)
        await gate.offer()
        assert await gate.client.ladder(MODEL) == before
        monkeypatch.setattr(ratings, "PERIOD_S", 0.0)
        assert len(await gate.client.ladder(MODEL)) > len(before)


async def test_results_that_arrive_during_a_rating_are_shown_together_by_the_next_one(open_gate, rater):
    async with open_gate(ladder_games=4) as gate:
        ladder, shown, noted = gate.gatekeeper.ladder, [], asyncio.Event()
        show = ladder._show

        async def note():
            await show()
            shown.append(ladder._ratings._counted)
            noted.set()

        ladder._show = note
        rater.hold()
        await gate.offer()
        await asyncio.to_thread(rater.began.wait)
        await gate.until(
            lambda: gate.ledger.games_between("random", "alpha_beta:1") and gate.ledger.games_between("model:1", "alpha_beta:1")
        )
        await gate.until(lambda: not gate.ledger.boards("ladder"))
        shown.clear()
        rater.may_end.set()
        while len(shown) < 2:
            noted.clear()
            await noted.wait()
        assert shown[-1] == counted_games(gate.ledger.gate, gate.pointer.history) != shown[0]
    assert len(rater.threads) == 2


async def test_a_cancelled_rating_leaves_no_task_and_is_kept(open_gate, rater):
    async with open_gate() as gate:
        await gate.offer()
        tasks = asyncio.all_tasks()
        rater.hold()
        call = asyncio.ensure_future(gate.gatekeeper.ladder.rungs())
        await asyncio.to_thread(rater.began.wait)
        call.cancel()
        asyncio.get_running_loop().call_soon(rater.may_end.set)
        await asyncio.wait({call})
        assert call.cancelled()
        assert asyncio.all_tasks() <= tasks
        assert [rung.name for rung in await gate.gatekeeper.ladder.rungs()] == ["random"]
    assert len(rater.threads) == 1


async def test_a_gatekeeper_that_stops_while_it_rates_leaves_no_task(open_gate, rater):
    before = asyncio.all_tasks()
    async with open_gate(ladder_games=4) as gate:
        await gate.offer()
        await asyncio.to_thread(rater.began.wait)
        rater.hold()
        await gate.until(lambda: gate.ledger.games_between("model:1", "alpha_beta:1") == 4)
        await asyncio.to_thread(rater.began.wait)
        asyncio.get_running_loop().call_soon(rater.may_end.set)
    assert asyncio.all_tasks() == before
