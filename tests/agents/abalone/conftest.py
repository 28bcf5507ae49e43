"""Positions of Abalone for the tests of its players."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import games
from games import abalone_bitboard as bitboard
from games import core
from games.core import Game, State
from zerofleet.agents import make_agent

Positions = list[State]


@pytest.fixture(scope="session")
def at() -> Callable[..., State]:
    """Makes a position from the cells of both players, such as `at("A1 A2", "B2")`."""

    def make(first: str, second: str, plies: int = 0) -> State:
        return np.array([bitboard.word(first), bitboard.word(second), plies], dtype=np.uint64)

    return make


@pytest.fixture(scope="session")
def battles() -> Positions:
    """Positions of games between two players who look one ply ahead and now and then move at random: both have lost marbles."""
    game, rng = games.make("abalone"), np.random.default_rng(1)
    return [position for seed in range(8) for position in _battle(game, rng, 10 + 9 * seed)]


def _battle(game: Game, rng: np.random.Generator, plies: int) -> Positions:
    """The last positions of a game of so many plies, if it is not over by then."""
    player, state, kept = make_agent("abalone_search:1", game), games.new_state(game), []
    for ply in range(plies):
        guesses = ply < 6 or rng.random() < 0.2
        action = rng.choice(games.legal(game, state)) if guesses else player.choose(game, state, rng).action
        core.play(game, state, int(action))
        if core.is_over(game, state):
            break
        if ply >= plies - 4:
            kept.append(state.copy())
    return kept
