"""What positions of the two star games are worth: who is ahead, within what can still be won."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game


def estimated(game: Game, state: np.ndarray) -> np.ndarray:
    out = np.empty(game.spec().num_players, dtype=np.float32)
    core.estimate(game, state, out)
    return out


def scored(game: Game, state: np.ndarray) -> np.ndarray:
    out = np.empty(game.spec().num_players, dtype=np.float32)
    core.scores(game, state, out)
    return out


def test_estimates_are_zero_at_the_start() -> None:
    star37, star121 = games.make("chinese_checkers_star37"), games.make("chinese_checkers", players=3)
    assert estimated(star37, games.new_state(star37)).tolist() == [0.0] * 3
    assert estimated(star121, games.new_state(star121)).tolist() == [0.0] * 3


def test_a_lead_of_two_rows_is_a_sixteenth_of_the_way_on_37_fields() -> None:
    game = games.make("chinese_checkers_star37")
    state = games.replay(game, games.read_moves(game, "d2-f4"))
    # the first leads two others by 2 of 32 rows; each of them is level with one and 2 behind the other
    np.testing.assert_allclose(estimated(game, state), [0.99 / 16, -0.99 / 32, -0.99 / 32], rtol=1e-6)


def test_a_lead_of_one_row_is_one_part_in_120_on_121_fields() -> None:
    game = games.make("chinese_checkers")
    state = games.replay(game, games.read_moves(game, "d1-e5"))
    np.testing.assert_allclose(estimated(game, state), [0.99 / 120, -0.99 / 120], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("chinese_checkers_star37", {"moves_cap": 1000}),
        ("chinese_checkers", {"players": 3, "places": True}),
        ("chinese_checkers", {"players": 2, "places": True}),
    ],
)
def test_places_won_keep_their_scores_and_no_estimate_reaches_them(name: str, parameters: dict[str, object]) -> None:
    game, rng = games.make(name, **parameters), np.random.default_rng(3)
    state, places = games.new_state(game), set()
    while not core.is_over(game, state):
        legal = games.legal(game, state)
        values = np.array([core.move_value(game, state, action) for action in legal])
        core.play(game, state, int(rng.choice(np.array(legal)[values >= values.max() - rng.integers(2)])))
        found = estimated(game, state)
        assert (found > -1.0).all() or core.is_over(game, state)
        assert (found < 1.0).all() or (found == 1.0).sum() == 1
        places.add(float(found.max()) == 1.0)
    assert np.array_equal(estimated(game, state), scored(game, state))
    assert places == {False, True} or game.spec().num_players == 2
