"""Matches between equals: luck alone must not decide more often than the test says."""

from dataclasses import replace

import pytest

from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import MatchTerms, Player, Scoreboard, SequentialTest, play_match
from zerofleet.strength.ratings import Sprt

MATCHES = 20  # the error rates themselves are tested with results made by hand, in tests/ratings
ALPHA = 0.1


def test_a_twin_is_the_same_player_under_another_name():
    agent, model = Player("alpha_beta:2"), Player.model(7)
    assert (agent.twin().name, agent.twin().text, agent.twin().version) == ("alpha_beta:2 (control)", "alpha_beta:2", None)
    assert (model.twin().name, model.twin().version) == ("model:7 (control)", 7)
    assert agent.twin() != agent


def test_a_match_of_more_players_than_seats_is_rejected(game):
    with pytest.raises(InvalidRequest, match="3 players cannot share the 2 seats of tic_tac_toe"):
        MatchTerms("m", game, (Player("a"), Player("b"), Player("c")), seed=0, opening_plies=0, max_groups=1)


@pytest.mark.slow
async def test_the_test_decides_between_equal_players_no_more_often_than_its_error_rate(game, settings):
    """Of 20 matches, luck takes one player for 150 Elo stronger in 2 at most on average; 7 is three deviations more."""
    player = Player("random")
    rule = SequentialTest(Sprt(0.0, 150.0, alpha=ALPHA, beta=ALPHA))
    decided = []
    for seed in range(MATCHES):
        terms = MatchTerms("m", game, (player, player.twin()), seed=seed, opening_plies=2, max_groups=400)
        board = Scoreboard(terms)
        chosen = replace(settings, slots=8)
        outcome = await play_match(board, rule, UniformEvaluator(2), settings=chosen, make_agent=make_agent)
        assert "undecided" not in outcome.decision.reason
        decided.append(outcome.decision.first_wins)
    assert sum(decided) <= MATCHES * ALPHA + 3 * (MATCHES * ALPHA * (1 - ALPHA)) ** 0.5
