"""The rule `may_end` of the games with long races: never false where a game can end, and false through most of it."""

import numpy as np
import pytest

import games
from games import core
from games.positions import legal

RACES = {
    "rhombus": games.make("chinese_checkers_rhombus"),
    "rhombus, own pieces only": games.make("chinese_checkers_rhombus", anti_spoiling=False),
    "rhombus, short": games.make("chinese_checkers_rhombus", ply_cap=30),
    "rhombus, repetitions": games.make("chinese_checkers_rhombus", repetitions=3),
    "star of 121, two": games.make("chinese_checkers"),
    "star of 121, three, places": games.make("chinese_checkers", players=3, places=True),
    "star of 121, short": games.make("chinese_checkers", rounds=12),
    "star of 37": games.make("chinese_checkers_star37"),
    "star of 37, short": games.make("chinese_checkers_star37", moves_cap=8),
}


def after(game, state, action):
    following = state.copy()
    core.play(game, following, action)
    return following


def can_end(game, state, plies):
    """Whether some sequence of at most `plies` legal moves ends the game, by trying all."""
    for action in legal(game, state):
        following = after(game, state, action)
        if core.is_over(game, following) or (plies > 1 and can_end(game, following, plies - 1)):
            return True
    return False


def positions_of_a_greedy_game(game, rng):
    """Every position of a game whose players mostly gain as much ground as they can; without end after 900 plies."""
    state = games.new_state(game)
    while not core.is_over(game, state) and rng.random() > 1 / 900:
        yield state
        actions = legal(game, state)
        gains = [core.move_value(game, state, action) for action in actions]
        best = [action for action, gain in zip(actions, gains, strict=True) if gain == max(gains)]
        state = after(game, state, int(rng.choice(actions if rng.random() < 0.15 else best)))


@pytest.mark.parametrize("name", RACES)
def test_every_end_within_two_moves_is_foreseen(name):
    game = RACES[name]
    rng = np.random.default_rng(37)
    ends = 0
    for _ in range(4):
        for state in list(positions_of_a_greedy_game(game, rng))[-8:]:
            for plies in (1, 2):
                if can_end(game, state, plies):
                    ends += 1
                    assert core.may_end(game, state, plies), f"{plies} plies from\n{game.draw(state)}"
    assert ends >= 4


@pytest.mark.parametrize("name", ["rhombus", "star of 121, two", "star of 37"])
def test_most_positions_of_a_game_need_no_look_for_an_end(name):
    game = RACES[name]
    positions = list(positions_of_a_greedy_game(game, np.random.default_rng(5)))
    assert np.mean([core.may_end(game, state, 1) for state in positions]) < 0.4
