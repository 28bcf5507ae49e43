"""The Take 6! player of a thesis, whose search foresees the opponents' cards with a head, measured against rule players."""

import asyncio

import pytest

from games.core import make
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.strength.matches import FixedGames, MatchSettings, MatchTerms, Player, Scoreboard, play_match, summarise
from zerofleet.testing import FunctionEvaluator

GAME = make("take_six")
THESIS = "mcts:4,model=7,u=literal,information=predict"


@pytest.fixture
def heads():
    """Numbers of extra heads in the requests of a match, in order."""
    return []


@pytest.fixture
def evaluator(heads):
    def answer(batch, version):
        assert version == 7
        heads.append(batch.extra_heads)
        policy, value, extra = uniform_answer(batch, GAME.spec())
        return policy, value, *extra

    return FunctionEvaluator(answer)


def play(evaluator, player, settings):
    players = (player, Player("take_six_comparison"))
    board = Scoreboard(MatchTerms("m", GAME, players, seed=3, opening_plies=0, max_groups=1))
    outcome = asyncio.run(play_match(board, FixedGames(), evaluator, settings=settings, make_agent=make_agent))
    return summarise(board.terms, outcome.standing, board.counted_results(outcome.standing.groups))


@pytest.mark.slow
def test_a_model_that_foresees_its_opponents_is_measured_against_a_rule_player(evaluator, heads):
    name = make_agent(THESIS, GAME, evaluate=lambda batch, version: None).name
    summary = play(evaluator, Player(name), MatchSettings(slots=6))
    assert (summary.first, summary.games) == (THESIS, 6)  # every seating of two players on three seats
    effort = next(effort for effort in summary.efforts if effort.player == THESIS)
    assert effort.nodes_per_move == 4.0
    assert set(heads) == {1}


@pytest.mark.slow
def test_the_models_of_a_match_take_the_same_search(evaluator, heads):
    settings = MatchSettings(simulations=4, slots=6, options=parse_search("information=predict,u=literal"))
    assert settings.terms(GAME.spec())["search"] == "u=literal,information=predict"
    summary = play(evaluator, Player.model(7), settings)
    assert (summary.first, summary.games) == ("model:7", 6)
    assert set(heads) == {1}
    heads.clear()
    play(evaluator, Player.model(7), MatchSettings(simulations=4, slots=6))
    assert set(heads) == {0}  # a determinisation for each simulation, where nothing is written
