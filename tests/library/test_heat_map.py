"""Heat map of a search: visits by the cell on which a move ends, for every game of the package."""

from __future__ import annotations

from dataclasses import replace

import pytest

import games
from zerofleet.contracts.records import decode_record as decode
from zerofleet.contracts.records import encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.library.heat_map import heat_map

UID = "ab" * 16


def stored(name: str, **parameters: int):
    played = random_game(games.make(name, **parameters), 3)
    return validate(decode(encode_record(played, worker_id="w", uid=UID, finished_at_ms=0)))


@pytest.mark.parametrize(
    "name", ["connect_four", "othello", pytest.param("chinese_checkers", marks=pytest.mark.slow), "take_six"]
)
def test_the_shares_of_all_cells_and_of_moves_without_one_sum_to_one(name):
    game = stored(name)
    for ply in range(0, min(len(game.states) - 1, 40), 7):
        found = heat_map(game, ply)
        assert found.has_cells
        assert found.cells
        assert sum(cell.share for cell in found.cells) + found.elsewhere == pytest.approx(1.0)
        assert len({cell.id for cell in found.cells}) == len(found.cells)


def test_moves_that_end_on_one_cell_are_counted_together():
    game = stored("chinese_checkers")
    columns, state = game.search, game.states[0]
    entries = slice(columns.start[0], columns.start[1])
    wanted: dict[str, int] = {}
    for action, visits in zip(columns.actions[entries].tolist(), columns.visits[entries].tolist(), strict=True):
        end = game.game.action_path(state, action)[-1]
        wanted[end] = wanted.get(end, 0) + visits
    assert len(wanted) < columns.start[1] - columns.start[0]
    assert {cell.id: cell.visits for cell in heat_map(game, 0).cells} == {
        end: visits for end, visits in wanted.items() if visits
    }


def test_after_the_last_move_nothing_is_shown():
    game = stored("tic_tac_toe")
    assert heat_map(game, len(game.states) - 1).cells == ()


def test_a_game_without_cells_says_so():
    class Plain:
        pass

    found = heat_map(replace(stored("tic_tac_toe"), game=Plain()), 0)  # type: ignore[arg-type]
    assert (found.has_cells, found.cells) == (False, ())
