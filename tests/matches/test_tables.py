"""Players with searches of their own: their games are searched in blocks, many to a request, with the moves of the agent."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from games import core, positions
from games.core import make
from zerofleet.agents import make_agent
from zerofleet.agents.model.mcts import MOST_IN_BLOCKS, match_search
from zerofleet.errors import InvalidRequest, Unavailable
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.strength.matches import FixedGames, MatchSettings, MatchTerms, Player, Scoreboard, play_match, summarise
from zerofleet.testing import FunctionEvaluator

FEW, MANY = "mcts:6,model=7", "mcts:24,model=7,c=3,replies=false"


def answer(batch, version):
    """Return values that depend on the position in no sensible way."""
    players = 2 if batch.legal.shape[1] <= 9 else 3
    value = np.zeros((len(batch), players), dtype=np.float32)
    value[:, 0] = batch.states.astype(np.int64).sum(axis=1) * 7919 % 100 / 100 - 0.5
    value[:, 1] = -value[:, 0]
    return uniform_policy(batch.legal), value


def now(batch, version):
    return Evaluation(*answer(batch, version), version)


class Counting:
    """Evaluator that notes the number of positions of each request."""

    def __init__(self):
        self.inner, self.sizes = FunctionEvaluator(answer), []

    async def evaluate(self, batch, *, version):
        self.sizes.append(len(batch))
        return await self.inner.evaluate(batch, version=version)


def no_agent(name, game, evaluate=None):
    raise AssertionError(f"{name} was asked in a thread")


async def played(terms, settings, evaluator=None, maker=no_agent):
    board = Scoreboard(terms)
    outcome = await play_match(board, FixedGames(), evaluator or FunctionEvaluator(answer), settings=settings, make_agent=maker)
    return board, outcome


def mover_agent(result, game, seat):
    return make_agent(result.players[seat], game, evaluate=now)


async def test_a_search_in_a_block_plays_the_moves_of_the_agent(terms, settings, game):
    board, _ = await played(terms(FEW, MANY, max_groups=4), settings)
    assert len(board.results()) == 8
    for result in board.results():
        state = positions.replay(game, result.moves[:2])
        for move in result.moves[2:]:
            agent = mover_agent(result, game, core.to_move(game, state))
            assert agent.choose(game, state, np.random.default_rng(0)).action == move
            positions.advance(game, state, move)


async def test_games_do_not_depend_on_the_number_of_concurrent_ones(terms, settings):
    found = []
    for slots in (1, 8):
        board, _ = await played(terms(FEW, MANY), replace(settings, slots=slots))
        found.append(sorted(board.results(), key=lambda result: (result.group, result.seating)))
    assert found[0] == found[1]


async def test_the_games_of_a_match_share_requests(terms, settings):
    evaluator = Counting()
    board, _ = await played(terms(FEW, MANY, max_groups=8), replace(settings, slots=16, cache_positions=0), evaluator)
    assert len(board.results()) == 16
    assert np.mean(evaluator.sizes) > 3


async def test_a_search_of_its_own_meets_a_model_and_an_agent(terms, settings):
    for opponent in (7, "random"):
        board, outcome = await played(terms(FEW, opponent), settings, maker=make_agent)
        assert outcome.standing.games == 16
        efforts = summarise(board.terms, outcome.standing, board.counted_results()).efforts
        own = next(effort for effort in efforts if effort.player == FEW)
        assert 1 < own.nodes_per_move <= 6
        assert own.ms_per_move > 0


async def test_three_searches_share_a_game_of_three(settings):
    game = make("chinese_checkers_star37", moves_cap=6)
    players = (Player("mcts:4,model=7"), Player("mcts:6,model=8"), Player("random"))
    terms = MatchTerms("m", game, players, seed=3, opening_plies=1, max_groups=1)
    board, outcome = await played(terms, settings, maker=make_agent)
    assert outcome.standing.games == 6
    for result in board.results():
        positions.replay(game, result.moves)


async def test_an_evaluator_that_is_gone_ends_the_match_with_its_error(terms, settings):
    class Gone:
        async def evaluate(self, batch, *, version):
            await asyncio.sleep(0)
            raise Unavailable("gone")

    with pytest.raises(Unavailable, match="gone"):
        await played(terms(FEW, MANY), settings, Gone())


@pytest.mark.parametrize(
    ("second", "repeats"), [(MANY, True), ("mcts:24,model=8,temperature=1", False), ("mcts:5ms,model=7", False)]
)
def test_games_of_searches_without_chance_are_not_repeated(terms, second, repeats):
    assert terms(FEW, second).must_differ == repeats


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("model:7", True),
        ("mcts:8,model=7", True),
        ("network,model=7", True),
        ("network,model=7,by=value", True),
        ("network,model=7,epsilon=0.1", False),
        ("network,model=7,temperature=1", False),
        ("abalone_search:2,ties=first", True),
        ("abalone_search:2", False),
        ("abalone_search:50ms,ties=first", False),
        ("rhombus_search:3,ties=fixed", True),
        ("rhombus_search:3", False),
        ("rhombus_search:50ms,ties=fixed", False),
        ("rhombus_pool:2,model=7,ties=fixed", True),
        ("rhombus_pool:2,model=7", False),
        ("alpha_beta:3", False),
        ("uct:100", False),
        ("random", False),
        ("player 1", False),
    ],
)
def test_players_whose_moves_have_no_chance_repeat_themselves(text, repeats):
    assert Player.named(text).repeats_itself == repeats


def test_players_without_chance_meet_once_from_every_opening(game):
    players = (Player.named("network,model=1"), Player.model(2))
    met = MatchTerms("m", game, players, seed=1, opening_plies=1, max_groups=100)
    assert len(list(met.openings())) == 9
    drawn = MatchTerms("m", game, (Player.named("network,model=1,epsilon=0.1"), Player.model(2)), 1, 1, 100)
    assert len(list(drawn.openings())) == 100


@pytest.mark.parametrize("text", ["mcts:5ms,model=7", f"mcts:{MOST_IN_BLOCKS + 1},model=7", "network,model=7", "random"])
def test_players_with_a_time_budget_or_without_such_a_search_are_agents_in_threads(game, text):
    assert MatchSettings().search_of(Player(text), game.spec()) is None


def test_the_search_of_a_player_has_its_own_options(game):
    settings, version = match_search("mcts:40,model=9,root=gumbel,considered=4,leaves=2", game.spec())
    assert (settings.simulations, settings.root_policy, settings.gumbel_considered) == (40, "gumbel", 4)
    assert (settings.leaves_per_game, version) == (2, 9)
    with pytest.raises(InvalidRequest, match="needs the version of a model"):
        match_search("mcts:40", game.spec())
