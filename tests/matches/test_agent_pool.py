"""Agents in threads: answers as they come, none lost, errors told, and nothing left behind."""

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from games import positions
from zerofleet.agents import Choice, make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import Player, Scoreboard, play_games
from zerofleet.strength.matches.agent_pool import AgentPool, Question
from zerofleet.strength.matches.play import waiting_for


class Gated:
    """Answers the first legal move, but in the empty position only when the gate is open."""

    name = "gated"

    def __init__(self):
        self.began = threading.Event()
        self.gate = threading.Event()

    def choose(self, game, state, rng):
        legal = positions.legal(game, state)
        if len(legal) == 9:
            self.began.set()
            self.gate.wait(20)
        return Choice(legal[0], nodes=3)


def question(slot, game, moves=(), name="a"):
    return Question(slot, Player(name), positions.replay(game, moves), np.random.default_rng(slot))


def threads_of_agents():
    return [thread for thread in threading.enumerate() if thread.name.startswith("agents")]


async def test_a_slow_agent_delays_no_other_game(game):
    agent = Gated()
    async with AgentPool(game, lambda text, game, evaluate=None: agent, None, threads=2) as pool:
        pool.ask([question(1, game, [4])])
        quick = await pool.answers(at_least=1)
        pool.ask([question(0, game), question(2, game, [3])])
        while len(quick) < 2:
            quick += await pool.answers(at_least=1)
        assert {answer.slot for answer in quick} == {1, 2}
        assert pool.asked == {0}
        agent.gate.set()
        (last,) = await pool.answers(at_least=1)
    assert (last.slot, last.action, last.effort.moves, last.effort.nodes) == (0, 0, 1, 3)
    assert last.effort.time_s > last.effort.cpu_s  # it waited for the gate


async def test_every_question_is_answered_once_for_any_number_of_threads(game):
    for threads in (1, 4):
        async with AgentPool(game, make_agent, None, threads=threads) as pool:
            answers = []
            for first in range(0, 200, 50):
                pool.ask([question(slot, game, [4], "random") for slot in range(first, first + 50)])
                answers += await pool.answers(at_least=10)
            while pool.asked:
                answers += await pool.answers(at_least=1)
        assert sorted(answer.slot for answer in answers) == list(range(200))


async def test_the_error_of_an_agent_is_raised_by_answers(game):
    async with AgentPool(game, make_agent, None, threads=2) as pool:
        pool.ask([question(0, game, name="nobody")])
        with pytest.raises(InvalidRequest, match="no agent is called 'nobody'"):
            await pool.answers(at_least=1)


async def test_an_agent_that_returns_no_choice_is_named(game):
    agent = SimpleNamespace(choose=lambda game, state, rng: 4)
    async with AgentPool(game, lambda text, game, evaluate=None: agent, None, threads=1) as pool:
        pool.ask([question(0, game, name="mine")])
        with pytest.raises(InvalidRequest, match=r"mine chose 4; expected a zerofleet\.agents\.Choice with an action"):
            await pool.answers(at_least=1)


async def test_leaving_the_pool_waits_for_running_searches_and_drops_queued_questions(game):
    agent = Gated()
    async with AgentPool(game, lambda text, game, evaluate=None: agent, None, threads=1) as pool:
        pool.ask([question(slot, game) for slot in range(3)])
        agent.gate.set()
    assert not threads_of_agents()


async def test_a_cancelled_pool_waits_for_no_search(game):
    agent = Gated()

    async def wait_for_a_move():
        async with AgentPool(game, lambda text, game, evaluate=None: agent, None, threads=1) as pool:
            pool.ask([question(0, game)])
            await pool.answers(at_least=1)

    match = asyncio.create_task(wait_for_a_move())
    try:
        assert await asyncio.to_thread(agent.began.wait, 20)
        match.cancel()
        done, _ = await asyncio.wait({match}, timeout=10)
        assert done
        assert match.cancelled()
        assert all(thread.daemon for thread in threads_of_agents())
    finally:
        agent.gate.set()
    for thread in threads_of_agents():
        await asyncio.to_thread(thread.join, 20)


def test_an_agent_that_outlives_its_event_loop_gets_an_error_from_the_model(game):
    async def begin():
        return waiting_for(UniformEvaluator(2))

    evaluate = asyncio.run(begin())
    with pytest.raises(RuntimeError, match="closed"):
        AsksAModel(evaluate).choose(game, positions.new_state(game), np.random.default_rng(0))


async def test_results_do_not_depend_on_the_number_of_threads(terms, settings, game):
    games = []
    for threads in (1, 3):
        pairings = Scoreboard(terms("alpha_beta:2", "random", max_groups=10)).open_pairings()
        chosen = replace(settings, agent_threads=threads)
        results = play_games(game, pairings, UniformEvaluator(2), settings=chosen, make_agent=make_agent)
        games.append(sorted([result async for result in results], key=lambda r: (r.group, r.seating)))
    assert games[0] == games[1]
    assert len(games[0]) == 20


class AsksAModel:
    """Plays the move that the model likes best."""

    def __init__(self, evaluate):
        self.evaluate = evaluate

    def choose(self, game, state, rng):
        from zerofleet.evaluators.base import LeafBatch  # noqa: PLC0415

        legal = np.full((1, 9), -1, dtype=np.int16)
        own = positions.legal(game, state)
        legal[0, : len(own)] = own
        batch = LeafBatch(positions.encode_for(game, state, 0)[None], legal)
        policy = self.evaluate(batch, 7).policy[0]
        return Choice(own[int(policy[: len(own)].argmax())], 1)


async def test_agents_that_use_a_model_share_batches_at_the_server(terms, settings, game):
    """Eight of them ask before one is answered, though one thread is all that agents may use to think."""
    inner, here, all_here = UniformEvaluator(2), 0, asyncio.Event()

    class Patient:
        async def evaluate(self, batch, *, version):
            nonlocal here
            here += 1
            if here == 8:
                all_here.set()
            await asyncio.wait_for(all_here.wait(), 20)
            return await inner.evaluate(batch, version=version)

    pairings = Scoreboard(terms("network,model=7", "network,model=8", max_groups=4)).open_pairings()
    chosen = replace(settings, slots=8, agent_threads=1)
    maker = lambda text, game, evaluate=None: AsksAModel(evaluate)  # noqa: E731
    played = [r async for r in play_games(game, pairings, Patient(), settings=chosen, make_agent=maker)]
    assert len(played) == 8
