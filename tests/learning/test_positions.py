"""Positions of a judge: scored by perfect play, the same for every player, drawn once."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import games
from zerofleet.errors import InvalidRequest
from zerofleet.strength.accuracy import yardstick
from zerofleet.strength.learning.positions import (
    ScoredPosition,
    deciding_positions,
    is_solvable,
    kept_file_positions,
    kept_positions,
    score_positions,
    stored_positions,
)
from zerofleet.strength.position_file import FiledPosition, read_positions

GAME = games.make("tic_tac_toe")
SMALL = games.make("connect_four", rows=4, columns=4)


@functools.cache
def value(moves: tuple[int, ...]) -> float:
    """Return the value of a position of tic-tac-toe for the player to move, by plain negamax."""
    state = games.replay(GAME, moves)
    legal = games.legal(GAME, state)
    if not legal:
        return games.final_scores(GAME, state)[len(moves) % 2]
    return max(-value((*moves, action)) for action in legal)


def test_scores_of_moves_are_those_of_plain_negamax():
    for position in deciding_positions(GAME, count=40, seed=3):
        assert position.scores == tuple(-value((*position.moves, action)) for action in position.actions)
        assert list(position.actions) == games.legal(GAME, games.replay(GAME, position.moves))


def test_deciding_positions_differ_decide_and_depend_on_the_seed_alone():
    found = deciding_positions(GAME, count=40, seed=3)
    assert len({position.moves for position in found}) == len(found) == 40
    assert all(position.decides for position in found)
    assert found == deciding_positions(GAME, count=40, seed=3) != deciding_positions(GAME, count=40, seed=4)


def test_a_game_in_which_no_position_decides_is_refused_and_nothing_is_kept(tmp_path):
    every_game_is_drawn = games.make("connect_four", rows=2, columns=4)
    with pytest.raises(InvalidRequest, match=r"none of the .* positions drawn do the moves differ in value.*matches"):
        kept_positions(tmp_path, every_game_is_drawn, count=10, seed=1)
    assert list(tmp_path.iterdir()) == []


def test_moves_are_compared_with_the_best_by_value_and_by_score():
    position = ScoredPosition((), (0, 1, 2, 3), (2.0, 5.0, 0.0, -3.0))
    assert [position.keeps_value(action) for action in position.actions] == [True, True, False, False]
    assert [position.is_exact(action) for action in position.actions] == [False, True, False, False]
    assert position.decides
    assert not ScoredPosition((), (0, 1), (2.0, 5.0)).decides


def test_games_without_perfect_play_are_not_solvable():
    assert is_solvable(GAME)
    assert is_solvable(games.make("connect_four"))
    assert not is_solvable(games.make("take_six"))


def test_positions_are_drawn_once_and_read_from_the_folder_afterwards(tmp_path):
    drawn = []
    first = kept_positions(tmp_path / "cache", GAME, count=10, seed=1, progress=lambda: drawn.append(1))
    assert len(drawn) == 10
    again = kept_positions(tmp_path / "cache", GAME, count=10, seed=1, progress=lambda: drawn.append(1))
    assert (again, len(drawn)) == (first, 10)
    assert stored_positions(first) == deciding_positions(GAME, count=10, seed=1)
    assert kept_positions(tmp_path / "cache", GAME, count=10, seed=2) != first


def test_a_position_file_holds_moves_in_notation_or_columns_with_a_score(tmp_path):
    path = tmp_path / "positions.txt"
    path.write_text("# two ways\n1213 2\n\na1,b1  # notation\n-\n")
    assert read_positions(SMALL, path) == [
        FiledPosition(2, (0, 1, 0, 2), 2),
        FiledPosition(4, (0, 1), None),
        FiledPosition(5, (), None),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("11111", "line 1: move 5"),
        ("1212121", "line 1: the position is over; shorten it"),
        ("12 3 4", "line 1: '3 4' is not a score; want columns and one integer"),
        ("12 x", "line 1: 'x' is not a score"),
        ("z9", "line 1: move 1"),
        ("# nothing", "has no position"),
    ],
)
def test_an_invalid_position_file_is_rejected_with_its_line(tmp_path, line, said):
    path = tmp_path / "positions.txt"
    path.write_text(line)
    with pytest.raises(InvalidRequest) as rejected:
        read_positions(SMALL, path)
    assert said in str(rejected.value)


def test_a_missing_position_file_is_rejected(tmp_path):
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_positions(SMALL, tmp_path / "none.txt")


def test_the_deciding_positions_of_a_file_are_kept_with_the_score_of_every_move(tmp_path):
    filed = [FiledPosition(1, (0, 1, 0, 1, 0), None), FiledPosition(2, (), None), FiledPosition(3, (0, 1, 0, 2), None)]
    scored = score_positions(yardstick(SMALL), SMALL, [position.moves for position in filed])
    found = stored_positions(kept_file_positions(tmp_path, SMALL, filed))
    assert found == [position for position in scored if position.decides]
    blocked = found[0]
    assert blocked.moves == (0, 1, 0, 1, 0)
    assert [blocked.keeps_value(action) for action in blocked.actions] == np.equal(
        np.sign(blocked.scores), np.sign(max(blocked.scores))
    ).tolist()


def test_a_stated_score_must_be_the_solvers(tmp_path):
    moves = (0, 1, 0, 1, 0)
    (scored,) = score_positions(yardstick(SMALL), SMALL, [moves])
    right = int(max(scored.scores))
    kept_file_positions(tmp_path, SMALL, [FiledPosition(7, moves, right)])
    with pytest.raises(InvalidRequest, match=f"line 7 states the score {right + 1}, the solver finds {right}"):
        kept_file_positions(tmp_path / "other", SMALL, [FiledPosition(7, moves, right + 1)])


def test_a_file_in_which_nothing_decides_is_rejected(tmp_path):
    with pytest.raises(InvalidRequest, match="nothing can be judged"):
        kept_file_positions(tmp_path, GAME, [FiledPosition(1, (), None)])
