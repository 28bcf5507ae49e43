import pytest

from games.core import make
from zerofleet.agents import make_agent
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import Player
from zerofleet.strength.tournaments import LocalWorker, TournamentTerms


@pytest.fixture
def terms():
    def build(*names, game="tic_tac_toe", **changes):
        players = tuple(map(Player.named, names or ("random", "alpha_beta:1", "alpha_beta:2")))
        values = {"games": 8, "seed": 5, "opening_plies": 1, "simulations": 4} | changes
        return TournamentTerms(game=make(game), players=players, **values)

    return build


@pytest.fixture
def worker():
    def build(terms):
        evaluator = UniformEvaluator(terms.game.spec().num_players)
        return LocalWorker(terms.game, evaluator, make_agent=make_agent, simulations=terms.simulations)

    return build
