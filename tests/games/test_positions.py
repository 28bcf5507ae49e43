"""Checked moves, notation of whole games, and making games by name."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core, positions
from games.kit import bits
from games.notation import column_name


def test_an_illegal_move_is_rejected_and_changes_nothing() -> None:
    game = games.make("connect_four")
    state = games.replay(game, [3] * 6)
    before = state.copy()
    for action in (3, 7, -1, 2**20):
        with pytest.raises(games.IllegalMove, match=f"action {action} is not legal here; legal: 0 .a1., 1 .b1."):
            games.advance(game, state, action)
    assert np.array_equal(state, before)


def test_a_replay_names_the_illegal_move() -> None:
    with pytest.raises(games.IllegalMove, match="move 7: action 3 is not legal here"):
        games.replay(games.make("connect_four"), [3] * 8)


def test_a_replay_rejects_moves_after_the_end() -> None:
    with pytest.raises(games.IllegalMove, match="move 8: action 0 is not legal here: the game is over"):
        games.replay(games.make("connect_four"), [0, 1, 0, 1, 0, 1, 0, 0])


def test_advancing_move_by_move_equals_a_replay() -> None:
    game = games.make("connect_four")
    state = games.new_state(game)
    for action in (3, 3, 2, 0):
        games.advance(game, state, action)
    assert np.array_equal(state, games.replay(game, [3, 3, 2, 0]))


def test_the_movers_are_the_seats_to_move_before_each_move() -> None:
    game, seed = games.make("take_six"), 7
    moves: list[int] = []
    for _ in range(7):
        moves.append(games.legal(game, games.replay(game, moves, seed))[-1])
    before = [games.replay(game, moves[:ply], seed) for ply in range(7)]
    assert positions.movers(game, moves, seed) == [int(core.to_move(game, state)) for state in before] == [0, 1, 2, 0, 1, 2, 0]


def test_moves_are_parsed_and_written() -> None:
    game = games.make("connect_four")
    moves = games.read_moves(game, "d1, d2,c a1\n")
    assert moves == [3, 3, 2, 0]
    assert games.move_names(game, moves) == ["d1", "d2", "c1", "a1"]
    assert games.read_moves(game, "") == []


def test_an_unreadable_or_illegal_move_is_named_by_its_number() -> None:
    game = games.make("connect_four")
    with pytest.raises(games.IllegalMove, match="move 3: 'd2' is not a legal move here"):
        games.read_moves(game, "d1 d2 d2")
    with pytest.raises(games.IllegalMove, match="move 2: action 9 is not legal here"):
        games.move_names(game, [3, 9])


def test_an_unfinished_game_has_no_scores() -> None:
    game = games.make("tic_tac_toe")
    with pytest.raises(games.GameError, match="not over"):
        games.final_scores(game, games.new_state(game))


def test_parameters_as_text_make_the_same_game() -> None:
    game = games.make("connect_four", rows=8, columns=25)
    text = games.parameters_text(game)
    assert text == {"rows": "8", "columns": "25", "connect": "4"}
    assert games.make("connect_four", **text) == game


def test_games_are_found_by_name() -> None:
    assert {"connect_four", "tic_tac_toe"} <= set(games.available())
    assert games.parameters_of("connect_four") == {"rows": 6, "columns": 7, "connect": 4, "encoding": "planes"}
    with pytest.raises(games.UnknownGame, match=r"no game is called 'chess'; available: .*connect_four"):
        games.make("chess")


def test_columns_are_named_as_in_a_spreadsheet() -> None:
    names = [column_name(index) for index in (0, 25, 26, 51, 52, 701, 702)]
    assert names == ["a", "z", "aa", "az", "ba", "zz", "aaa"]


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 7), (0, 8), (5, 8), (6, 9), (8, 24), (1, 40), (39, 40)])
def test_set_range_sets_only_the_bits_of_the_range(start: int, stop: int) -> None:
    out = np.zeros(5, dtype=np.uint8)
    bits.set_range(out, start, stop)
    assert bits.unpack(out, (1, 1, 40)).ravel().tolist() == [int(start <= bit < stop) for bit in range(40)]


def test_an_action_number_beyond_the_integer_types_is_rejected() -> None:
    game = games.make("tic_tac_toe")
    with pytest.raises(games.IllegalMove):
        games.advance(game, games.new_state(game), 2**70)


def test_rules_are_called_for_the_type_of_the_game() -> None:
    first, second = games.make("connect_four"), games.make("tic_tac_toe")
    assert core.to_move(first, games.replay(first, [0])) == core.to_move(second, games.replay(second, [0])) == 1
