"""Single positions: what a search finds in one, alone and among others, and how it ends."""

import asyncio

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed

import games
from games.errors import IllegalMove
from games.positions import replay
from zerofleet.errors import Overloaded
from zerofleet.evaluators.base import Evaluation
from zerofleet.search import Leaves, SearchBlock, SearchSettings, position, search_position, search_positions, search_state

WON = (0, 3, 1, 4, 2)  # X has the top row
SETTINGS = SearchSettings.for_analysis(CONNECT_FOUR.spec(), 40)
PLIES = [(), (3,), (3, 3, 2), (0, 1, 0, 1, 6)]


def answer(batch, version):
    """Evaluate a batch by hashes."""
    policy, value = answer_hashed(Leaves(batch, np.full(len(batch), version)), 2)
    return Evaluation(policy.astype(np.float16), value, version)


class Network:
    """The network of hashes as an evaluator that counts; it may fail, or hang until it is cancelled."""

    def __init__(self, *, fails=False, hangs=False):
        self.fails = fails
        self.hangs = hangs
        self.batches = []
        self.entered = asyncio.Event()
        self.was_cancelled = False

    async def evaluate(self, batch, *, version):
        self.batches.append(len(batch))
        if self.fails:
            raise Overloaded("busy")
        if self.hangs:
            self.entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.was_cancelled = True
        return answer(batch, version)


def found_by_hand(moves, settings=SETTINGS, *, game=CONNECT_FOUR, seed=5):
    """Step a block until its only slot waits."""
    block = SearchBlock(game, settings, slots=1)
    block.begin(0, seed=seed, versions=[7, 7], opening=moves, hold=True)
    while not block.waiting():
        evaluation = answer(block.advance().batch, 7)
        block.absorb(evaluation.policy, evaluation.value)
    return as_values(block.analysis(0))


def as_values(analysis):
    """Everything an analysis says, for comparison."""
    arrays = (analysis.actions, analysis.priors, analysis.visits, analysis.values, analysis.value)
    return repr([array.tolist() for array in arrays]), analysis.principal_variation, analysis.to_move, analysis.version


async def searched(moves, settings=SETTINGS, network=None, *, game=CONNECT_FOUR):
    return await search_position(game, network or Network(), moves, settings=settings, version=7, seed=5)


@pytest.mark.parametrize("moves", PLIES)
async def test_a_searched_position_equals_a_block_stepped_by_hand(moves):
    assert as_values(await searched(moves)) == found_by_hand(moves)


@pytest.mark.parametrize("slots", [1, 2, 128])
async def test_many_positions_keep_their_order_and_do_not_affect_each_other(monkeypatch, slots):
    monkeypatch.setattr(position, "SLOTS", slots)
    settings, network = SearchSettings.for_play(CONNECT_FOUR.spec(), 20), Network()
    found = await search_positions(CONNECT_FOUR, network, PLIES, settings=settings, version=7, seed=5)
    assert [as_values(analysis) for analysis in found] == [found_by_hand(moves, settings) for moves in PLIES]
    assert max(network.batches) == min(slots, len(PLIES))


async def test_no_positions_need_no_evaluation():
    network = Network()
    assert await search_positions(CONNECT_FOUR, network, [], settings=SETTINGS, version=7, seed=0) == []
    assert network.batches == []


@pytest.mark.parametrize("moves", PLIES)
def test_searching_a_state_equals_searching_its_moves(moves):
    state = replay(CONNECT_FOUR, moves)
    state.setflags(write=False)
    assert as_values(search_state(CONNECT_FOUR, answer, state, settings=SETTINGS, version=7, seed=5)) == found_by_hand(moves)


@pytest.mark.parametrize("simulations", [1, 20, 64])
async def test_the_budget_is_spent_in_full_with_a_few_leaves_in_flight(simulations):
    network = Network()
    settings = SearchSettings.for_analysis(CONNECT_FOUR.spec(), simulations)
    analysis = await searched((3,), settings, network)
    assert analysis.visits.sum() == simulations
    assert max(network.batches) == settings.leaves_per_game == max(1, simulations // 8)


async def test_without_simulations_the_move_of_largest_prior_is_best():
    network = Network()
    analysis = await searched((3, 3, 2), SearchSettings.for_analysis(CONNECT_FOUR.spec(), 0), network)
    assert network.batches == [1]
    assert not analysis.visits.any()
    assert analysis.best_action == analysis.actions[analysis.priors.argmax()] == analysis.actions[analysis.ranking()[0]]


async def test_moves_are_ranked_by_visits_and_then_by_prior():
    analysis = await searched(())
    order = analysis.ranking()
    assert sorted(order) == list(range(7))
    keys = [(-analysis.visits[i], -analysis.priors[i]) for i in order]
    assert keys == sorted(keys)
    assert analysis.best_action == analysis.principal_variation[0]
    assert analysis.visits[analysis.actions == analysis.best_action] == analysis.visits.max()


def test_a_search_stops_in_time_but_after_the_evaluation_of_the_root():
    state, looks = replay(CONNECT_FOUR, (3,)), []

    def is_up(after):
        looks.append(after)
        return len(looks) > after

    def visits(after):
        looks.clear()
        analysis = search_state(
            CONNECT_FOUR,
            answer,
            state,
            settings=SearchSettings.for_play(CONNECT_FOUR.spec(), 40),
            version=7,
            seed=5,
            is_time_up=lambda: is_up(after),
        )
        return int(analysis.visits.sum())

    assert [visits(after) for after in (0, 1, 5)] == [0, 0, 4]


async def test_a_finished_game_is_refused():
    settings = SearchSettings.for_analysis(TIC_TAC_TOE.spec(), 8)
    with pytest.raises(IllegalMove, match="ends the game"):
        await searched(WON, settings, game=TIC_TAC_TOE)
    with pytest.raises(IllegalMove, match="ends the game"):
        search_state(TIC_TAC_TOE, answer, replay(TIC_TAC_TOE, WON), settings=settings, version=7, seed=0)


async def test_an_illegal_move_and_an_evaluators_error_reach_the_caller():
    with pytest.raises(IllegalMove, match="move 2 of the opening is 9"):
        await searched((3, 9))
    with pytest.raises(Overloaded, match="busy"):
        await searched((3,), network=Network(fails=True))


async def test_cancellation_cancels_the_request_and_leaves_nothing_behind():
    network = Network(hangs=True)
    searching = asyncio.create_task(searched((3,), network=network))
    await network.entered.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert network.was_cancelled
    assert network.batches == [1]


def test_moves_of_an_opening_follow_the_given_position():
    block = SearchBlock(CONNECT_FOUR, SETTINGS, slots=2)
    block.begin(0, seed=1, versions=[7, 7], opening=(3, 3, 2), hold=True)
    block.begin(1, seed=1, versions=[7, 7], position=replay(CONNECT_FOUR, (3, 3)), opening=(2,), hold=True)
    np.testing.assert_array_equal(block.state(0), block.state(1))
    assert block.moves(1) == [2]


@pytest.mark.slow
async def test_hidden_information_limits_pending_leaves_and_the_line_to_one():
    game, batches = games.make("take_six"), []
    spec = game.spec()

    async def evaluate(batch, *, version):
        batches.append(len(batch))
        policy, value = answer_hashed(Leaves(batch, np.full(len(batch), version)), spec.num_players)
        return Evaluation(policy.astype(np.float16), value, version)

    network = Network()
    network.evaluate = evaluate
    analysis = await searched((), SearchSettings.for_analysis(spec, 64), network, game=game)
    assert set(batches) == {1}
    assert analysis.visits.sum() == 64
    assert analysis.principal_variation == (analysis.best_action,)
