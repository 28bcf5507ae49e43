"""Matches of games in which cards are dealt or moves are secret."""

import asyncio

import numpy as np

from games import core, positions
from games.core import make
from zerofleet.agents import Choice
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import FixedGames, MatchSettings, MatchTerms, Player, Scoreboard, play_match, position_key
from zerofleet.strength.matches.play import seen_by_mover

CARDS = make("take_six", players=3)
DUEL = make("rock_paper_scissors", turns=5)


class FirstAgent:
    """Plays the first legal move, so that two games differ only by what was dealt; keeps what it was shown."""

    def __init__(self):
        self.shown = []

    def choose(self, game, state, rng):
        self.shown.append(state.copy())
        return Choice(positions.legal(game, state)[0])


def terms(game, **changes):
    values = {"match_id": "m", "players": (Player.model(1), Player.model(2)), "seed": 3, "opening_plies": 0, "max_groups": 4}
    return MatchTerms(game=game, **(values | changes))


def play(match, make_agent, simulations):
    board = Scoreboard(match)
    settings = MatchSettings(simulations=simulations, slots=8, cache_positions=0)
    evaluator = UniformEvaluator(match.game.spec().num_players)
    asyncio.run(play_match(board, FixedGames(), evaluator, settings=settings, make_agent=make_agent))
    return board


def test_games_of_a_group_share_a_deal_and_groups_differ():
    openings = list(terms(CARDS).openings())
    assert [opening.moves for opening in openings] == [()] * 4
    assert len({position_key(CARDS, opening) for opening in openings}) == 4
    pairings = list(terms(CARDS).pairings(0, openings[0]))
    assert len(pairings) == 6
    assert {pairing.opening.seed for pairing in pairings} == {openings[0].seed}


def test_games_of_deterministic_players_differ_by_the_deal_alone():
    board = play(
        terms(CARDS, players=(Player("a"), Player("b"))), lambda name, game, evaluate=None: FirstAgent(), simulations=0
    )
    games = {}
    for result in board.results():
        games.setdefault(result.group, set()).add(result.moves)
    assert [len(moves) for moves in games.values()] == [1, 1, 1, 1]  # nobody's luck entered: the seats are all alike
    assert len(set.union(*games.values())) == 4


def test_an_agent_sees_its_own_hand_and_no_other():
    truth = positions.new_state(CARDS, seed=5)
    shown = [seen_by_mover(CARDS, truth, np.random.default_rng(seed)) for seed in range(8)]
    mover = core.to_move(CARDS, truth)
    own = positions.encode_for(CARDS, truth, mover)
    others = {tuple(positions.encode_for(CARDS, state, (mover + 1) % 3)) for state in shown}
    for state in shown:
        assert core.to_move(CARDS, state) == mover
        np.testing.assert_array_equal(positions.encode_for(CARDS, state, mover), own)
    assert len(others) == 8


def test_an_agent_does_not_see_the_secret_choice_of_the_round():
    states = []
    for action in range(3):
        state = positions.replay(DUEL, [action], seed=0)
        states.append(seen_by_mover(DUEL, state, np.random.default_rng(0)).tolist())
    assert states[0] == states[1] == states[2]


def test_models_sample_secret_moves_so_that_groups_differ():
    board = play(terms(DUEL, max_groups=8), None, simulations=0)
    assert len({result.moves for result in board.results()}) == 8  # by the seed of the group
