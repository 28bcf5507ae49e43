"""The greedy agent: only the best at first sight, ties by even chances, and how games among three of it go."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from zerofleet.agents import make_agent
from zerofleet.agents.simple.greedy import greedy_games

STAR = games.make("chinese_checkers_star37")

# 0.1 % of samples from even chances lie above: chi-square with 3 and with 6 degrees of freedom
CHI_SQUARE_3, CHI_SQUARE_6 = 16.27, 22.46


def chi_square(counts: np.ndarray) -> float:
    """How far counts are from being even."""
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.slow
def test_ties_are_broken_uniformly() -> None:
    rng, agent, state = np.random.default_rng(2), make_agent("greedy", STAR), games.new_state(STAR)
    best = [action for action in games.legal(STAR, state) if core.move_value(STAR, state, action) == 2.0]
    counts = np.bincount([agent.choose(STAR, state, rng).action for _ in range(4000)], minlength=320)
    assert len(best) == 4
    assert counts[best].sum() == 4000
    assert chi_square(counts[best]) < CHI_SQUARE_3


def test_only_moves_of_the_largest_move_value_are_chosen() -> None:
    rng, agent = np.random.default_rng(3), make_agent("greedy", STAR)
    for _ in range(5):
        state = games.new_state(STAR)
        while legal := games.legal(STAR, state):
            action = agent.choose(STAR, state, rng).action
            assert core.move_value(STAR, state, action) == max(core.move_value(STAR, state, other) for other in legal)
            games.advance(STAR, state, action)


def test_a_game_without_move_values_is_played_at_random() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(4)
    agent, state = make_agent("greedy", game), games.new_state(game)
    counts = np.bincount([agent.choose(game, state, rng).action for _ in range(1400)], minlength=7)
    assert chi_square(counts) < CHI_SQUARE_6


def test_compiled_greedy_games_equal_those_of_the_agent() -> None:
    rng, agent = np.random.default_rng(5), make_agent("greedy", STAR)
    plies = []
    for _ in range(40):
        state, moves = games.new_state(STAR), 0
        while not core.is_over(STAR, state):
            games.advance(STAR, state, agent.choose(STAR, state, rng).action)
            moves += 1
        plies.append(moves)
    compiled = greedy_games(STAR, 4000, 5).plies
    assert abs(np.mean(plies) - compiled.mean()) < 4 * compiled.std() / len(plies) ** 0.5


@pytest.mark.slow
def test_three_greedy_players_need_about_fifty_plies_and_never_reach_the_cap() -> None:
    played = greedy_games(STAR, 20_000, seed=1)
    points = (played.scores + 1) * 1.5
    assert abs(played.plies.mean() - 49.5) < 0.1
    assert played.plies.max() < 120
    assert np.abs(points.mean(axis=0) - [1.366, 1.344, 1.290]).max() < 0.04  # four standard errors
    assert 0 < (points.sum(axis=1) > 4.5).sum() < 20  # triple wins: one game in some four thousand


def test_the_seed_determines_the_games() -> None:
    first, again, other = (greedy_games(STAR, 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.plies, again.plies)
    assert np.array_equal(first.scores, again.scores)
    assert not np.array_equal(first.plies, other.plies)


def test_random_plies_come_first() -> None:
    game = games.make("chinese_checkers_star37", moves_cap=10)
    played = greedy_games(game, 50, seed=1, random_plies=30)
    assert set(played.plies) == {30}
    assert (played.scores == -1.0).all()
