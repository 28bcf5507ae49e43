"""Tic-tac-toe: ends, symmetries, notation."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.kit import bits


def test_tic_tac_toe_keeps_the_laws() -> None:
    games.check_game(games.make("tic_tac_toe"), games=5)


@pytest.mark.parametrize(
    ("moves", "scores"),
    [
        ("a1 b1 a2 b2 a3", (1.0, -1.0)),
        ("a1 b1 a2 b2 c3 b3", (-1.0, 1.0)),
        ("a1 a2 b2 b3 c3", (1.0, -1.0)),
        ("c1 a2 b2 b3 a3", (1.0, -1.0)),
        ("b2 a1 c1 a3 a2 c2 b1 b3 c3", (0.0, 0.0)),
        ("a1 a2 b1 b2 b3 c3 c2 a3 c1", (1.0, -1.0)),  # the last cell makes the line
    ],
)
def test_each_way_to_end_a_game_has_its_scores(moves: str, scores: tuple[float, float]) -> None:
    game = games.make("tic_tac_toe")
    state = games.replay(game, games.read_moves(game, moves))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == scores


def test_there_are_seven_different_symmetries() -> None:
    symmetries = games.make("tic_tac_toe").spec().symmetries
    images = {symmetry.actions.tobytes() for symmetry in symmetries}
    assert len(images) == 7
    assert np.arange(9, dtype=np.int16).tobytes() not in images


def test_the_planes_show_the_viewer_first() -> None:
    game = games.make("tic_tac_toe")
    state = games.replay(game, games.read_moves(game, "a3 c1"))
    top_left = [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    bottom_right = [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    seen = [bits.unpack(games.encode_for(game, state, viewer), (2, 3, 3)).tolist() for viewer in range(2)]
    assert seen == [[top_left, bottom_right], [bottom_right, top_left]]


def test_the_picture_shows_the_board() -> None:
    game = games.make("tic_tac_toe")
    state = games.replay(game, games.read_moves(game, "b2 c1"))
    assert game.draw(state).splitlines() == ["3 . . .", "2 . X .", "1 . . O", "  a b c"]


def test_another_size_is_rejected() -> None:
    with pytest.raises(games.InvalidParameters, match="size=4 is out of range"):
        games.make("tic_tac_toe", size=4)
