"""A watched search: the same result as an unwatched one, and a tree that is read meanwhile."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import games
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.search import SearchSettings, search_position
from zerofleet.search.block import SearchBlock
from zerofleet.search.watched import WatchedSearch

GAME = games.make("tic_tac_toe")
SETTINGS = SearchSettings.for_analysis(GAME.spec(), 200)
MOVES = (4, 0)


class Counting(UniformEvaluator):
    """Calls `noted` after each request."""

    def __init__(self, noted):
        super().__init__(2)
        self.noted = noted

    async def evaluate(self, batch, *, version):
        await self.noted()
        return await super().evaluate(batch, version=version)


@pytest.mark.slow
async def test_a_watched_search_finds_what_an_unwatched_one_finds():
    watched = WatchedSearch(GAME, UniformEvaluator(2), MOVES, settings=SETTINGS, version=1, seed=3)
    known = await search_position(GAME, UniformEvaluator(2), MOVES, settings=SETTINGS, version=1, seed=3)
    found = await watched.run()
    np.testing.assert_array_equal(found.visits, known.visits)
    np.testing.assert_array_equal(found.values, known.values)
    assert found.principal_variation == known.principal_variation


@pytest.mark.slow
async def test_the_tree_is_read_while_it_grows_and_a_stop_keeps_it():
    seen = []

    async def look():
        analysis = await search.analysis()
        seen.append(-1 if analysis is None else int(analysis.visits.sum()))
        if len(seen) == 5:
            search.stop()

    search = WatchedSearch(GAME, Counting(look), MOVES, settings=SETTINGS, version=1, seed=3)
    with pytest.raises(ValueError, match="not evaluated"):
        await search.node([])
    found = await search.run()
    assert seen[0] == -1
    assert seen[1:] == sorted(seen[1:])
    assert seen[-1] < found.visits.sum() < 200
    root = await search.node([])
    assert root.visits == found.visits.sum() + 1
    best = int(root.actions[root.ranking()[0]])
    child = await search.node([best])
    assert (child.to_move, child.visits) == (1 - root.to_move, int(found.visits.max()))
    for path in ([99], [best, best]):
        with pytest.raises(ValueError, match="no node"):
            await search.node(path)


@pytest.mark.slow
async def test_a_cancelled_search_keeps_readers_out_until_its_thread_has_ended(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def advance(block):
        begun.set()
        go_on.wait(60.0)

    monkeypatch.setattr(SearchBlock, "advance", advance)
    search = WatchedSearch(GAME, UniformEvaluator(2), MOVES, settings=SETTINGS, version=1, seed=3)
    task = asyncio.create_task(search.run())
    assert await asyncio.to_thread(begun.wait, 60.0)
    task.cancel()
    reading = asyncio.create_task(search.analysis())
    done, _ = await asyncio.wait({task, reading}, timeout=0.1)
    go_on.set()
    assert not done
    assert await reading is None
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.slow
async def test_a_search_with_hidden_information_that_is_stopped_at_once_still_has_its_root():
    game = games.make("rock_paper_scissors", turns=3)
    search = WatchedSearch(
        game, UniformEvaluator(2), (), settings=SearchSettings.for_analysis(game.spec(), 50), version=1, seed=3
    )
    search.stop()
    found = await search.run()
    node, worlds = await search.root()
    assert worlds.worlds == found.visits.sum() == node.visits - 1 < 3


class Ticking(UniformEvaluator):
    """Each request takes a tenth of a second of `now_s`, which is its own clock."""

    now_s = 0.0

    def __init__(self):
        super().__init__(2)

    async def evaluate(self, batch, *, version):
        self.now_s += 0.1
        return await super().evaluate(batch, version=version)


def limited(evaluator, limit_s, *, game=GAME, moves=MOVES, simulations=100_000):
    settings = SearchSettings.for_play(game.spec(), simulations)
    return WatchedSearch(
        game,
        evaluator,
        moves,
        settings=settings,
        version=1,
        seed=3,
        limit_s=limit_s,
        clock=lambda: evaluator.now_s,
    )


@pytest.mark.slow
async def test_a_limit_of_time_ends_the_search_at_the_evaluation_nearest_to_it():
    passed = {}
    for limit_s in (0.01, 0.5, 1.04, 1.06):
        evaluator = Ticking()
        search = limited(evaluator, limit_s)
        assert search.elapsed_s == 0.0
        found = await search.run()
        passed[limit_s] = round(search.elapsed_s, 2)
        assert round(evaluator.now_s, 2) == passed[limit_s]
        assert int(found.visits.sum()) >= round(10 * passed[limit_s]) - 1
    assert passed == {0.01: 0.1, 0.5: 0.5, 1.04: 1.0, 1.06: 1.1}


@pytest.mark.slow
async def test_simulations_and_a_stop_end_a_search_with_a_limit_of_time_too():
    few = limited(Ticking(), 3600.0, simulations=5)
    assert (await few.run()).visits.sum() == 5
    stopped = limited(Ticking(), 3600.0)
    stopped.stop()
    await stopped.run()
    assert stopped.elapsed_s < 1.0


@pytest.mark.slow
async def test_the_time_begins_after_the_compilation_and_holds_with_hidden_information():
    game, evaluator = games.make("rock_paper_scissors", turns=3), Ticking()
    search = limited(evaluator, 0.5, game=game, moves=())
    compile_search = search._warm_up

    def compile_for_a_minute():
        compile_search()
        evaluator.now_s += 60.0

    search._warm_up = compile_for_a_minute
    found = await search.run()
    assert 0.3 < search.elapsed_s < 0.7
    assert found.visits.sum() > 0
