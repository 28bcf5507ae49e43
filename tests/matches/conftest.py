import numpy as np
import pytest

from games import positions
from games.core import make
from zerofleet.agents import Choice
from zerofleet.agents.model.search_options import parse_search
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.strength.matches import GameResult, MatchSettings, MatchTerms, Player
from zerofleet.testing import FunctionEvaluator

SENSIBLE, STUBBORN, TWIN = 1, 2, 3


class RandomAgent:
    """Plays any legal move."""

    def choose(self, game, state, rng):
        legal = positions.legal(game, state)
        return Choice(legal[int(rng.integers(len(legal)))])


@pytest.fixture
def game():
    return make("tic_tac_toe")


@pytest.fixture
def make_agent():
    return lambda name, game, evaluate=None: RandomAgent()


@pytest.fixture
def evaluator():
    """Versions SENSIBLE and TWIN know nothing; STUBBORN insists on the last listed action and sees no danger."""

    def answer(batch, version):
        policy = uniform_policy(batch.legal)
        if version == STUBBORN:
            policy = np.zeros_like(policy)
            policy[np.arange(len(batch)), (batch.legal >= 0).sum(axis=1) - 1] = 1
        return policy, np.zeros((len(batch), 2), dtype=np.float32)

    return FunctionEvaluator(answer)


@pytest.fixture
def terms(game):
    def build(first=SENSIBLE, second=STUBBORN, **changes):
        players = tuple(Player.model(p) if isinstance(p, int) else Player(p) for p in (first, second))
        values = {"match_id": "m1", "seed": 7, "opening_plies": 2, "max_groups": 8} | changes
        return MatchTerms(game=game, players=players, **values)

    return build


@pytest.fixture
def settings():
    # Proofs would show a stubborn player every danger.
    # A Gumbel root looks at moves without prior, too.
    return MatchSettings(simulations=12, prove_values=False, options=parse_search("root=puct"), slots=8, cache_positions=256)


@pytest.fixture
def random_result(game):
    """Return a true result of a pairing, played at random."""

    def play(pairing, seed=0):
        rng = np.random.default_rng([seed, pairing.seed])
        state = positions.replay(game, pairing.opening.moves, pairing.opening.seed)
        moves = list(pairing.opening.moves)
        while legal := positions.legal(game, state):
            moves.append(legal[int(rng.integers(len(legal)))])
            positions.advance(game, state, moves[-1])
        names = tuple(player.name for player in pairing.players)
        scores = positions.final_scores(game, state)
        return GameResult(pairing.match_id, pairing.group, pairing.seating, names, tuple(moves), scores)

    return play
