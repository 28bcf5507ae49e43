"""The agent of first games: weights 1, 2 and 4 by what a move gains, drawn from as they are said."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from zerofleet.agents import PolicyAgent, make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.testing import built_in_games

STAR = games.make("chinese_checkers_star37")


def some_position(name: str, plies: int = 8) -> tuple[games.Game, np.ndarray]:
    game, rng = games.make(name), np.random.default_rng(1)
    state = games.new_state(game, 1)
    for _ in range(plies):
        before = state.copy()
        games.advance(game, state, int(rng.choice(games.legal(game, state))))
        if core.is_over(game, state):
            return game, before
    return game, state


def test_all_moves_of_the_start_gain_rows_and_are_equally_likely() -> None:
    policy = make_agent("initialize", STAR).policy(STAR, games.new_state(STAR))
    assert policy.tolist() == [0.1] * 10


def test_weights_are_one_two_and_four_by_the_gain_of_a_move() -> None:
    game, state = some_position("chinese_checkers_star37", plies=9)
    values = [core.move_value(game, state, action) for action in games.legal(game, state)]
    assert {int(np.sign(value)) for value in values} == {-1, 0, 1}
    weights = np.array([4.0 if value > 0 else 2.0 if value == 0 else 1.0 for value in values])
    np.testing.assert_allclose(make_agent("initialize", game).policy(game, state), weights / weights.sum())


@pytest.mark.slow
def test_move_frequencies_match_their_probabilities() -> None:
    game, state = some_position("chinese_checkers_star37", plies=9)
    agent, rng = make_agent("initialize", game), np.random.default_rng(2)
    legal = games.legal(game, state)
    counts = np.bincount([agent.choose(game, state, rng).action for _ in range(20_000)], minlength=320)
    assert counts.sum() == counts[legal].sum()
    expected = agent.policy(game, state) * 20_000
    chi_square = float(((counts[legal] - expected) ** 2 / expected).sum())
    freedom = len(legal) - 1
    assert chi_square < freedom + 4.0 * (2.0 * freedom) ** 0.5  # four standard deviations


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in_games())
def test_initialize_plays_every_game_by_a_known_policy(name: str) -> None:
    game, state = some_position(name)
    agent = make_agent("initialize", game)
    assert isinstance(agent, PolicyAgent)
    policy = agent.policy(game, state)
    assert policy.shape == (len(games.legal(game, state)),)
    assert policy.sum() == pytest.approx(1.0)
    assert agent.choose(game, state, np.random.default_rng(3)).action in games.legal(game, state)


def test_moves_without_values_are_equally_likely() -> None:
    game = games.make("tic_tac_toe")
    assert make_agent("initialize", game).policy(game, games.new_state(game)).tolist() == [1 / 9] * 9


def test_the_same_seed_gives_the_same_move() -> None:
    game, state = some_position("chinese_checkers_star37")
    agent = make_agent("initialize", game)
    first, second = (agent.choose(game, state, np.random.default_rng(4)).action for _ in range(2))
    assert first == second


def test_initialize_takes_neither_argument_nor_option() -> None:
    for text in ("initialize:3", "initialize,ties=fixed"):
        with pytest.raises(InvalidRequest):
            make_agent(text, STAR)
