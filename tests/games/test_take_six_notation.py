"""Take 6!: how moves are written, and what is refused, with what is allowed."""

from __future__ import annotations

import re

import pytest

import games
from games import core
from games.take_six import TakeSix


def test_moves_are_parsed_as_written() -> None:
    game = TakeSix()
    state = game.deal(rows=[20, 40, 60, 80], hands=[[*range(1, 11)], [*range(21, 31)], [*range(81, 91)]])
    assert game.parse_action(state, " 7@3 ") == 6 * 4 + 2
    core.play(game, state, 6 * 4 + 2)
    assert game.parse_action(state, "25") == 24 * 4
    assert game.parse_action(state, "25@4") == 24 * 4 + 3


@pytest.mark.parametrize(
    ("row_choice", "text", "said"),
    [
        ("before", "7", "'7' is not a legal move here (it is lower than every row: name the row to take, such as 7@1)"),
        ("before", "7@5", "legal: 1@1 1@2 1@3 1@4 2@1"),
        ("before", "20@1", "'20@1' is not a legal move here; legal: 1@1"),
        ("before", "105@1", "legal: 1@1"),
        ("needed", "7", "name the row to take"),
        ("needed", "90@1", "10@3 10@4 90"),
        ("after", "7@1", "'7@1' is not a legal move here; legal: 2 3 4 5 6 7 8 9 10 90"),
        ("after", "@1", "legal: 2 3"),
        ("after", "", "legal: 2 3"),
    ],
)  # fmt: skip
def test_an_illegal_move_is_rejected_with_the_legal_moves(row_choice: str, text: str, said: str) -> None:
    game = TakeSix(row_choice=row_choice)
    first = 1 if row_choice == "before" else 2
    state = game.deal(rows=[20, 40, 60, 80], hands=[[*range(first, 11), 90][:10], [*range(21, 31)], [*range(91, 101)]])
    with pytest.raises(games.IllegalMove, match=re.escape(said)):
        game.parse_action(state, text)


def test_moves_after_ten_rounds_are_rejected_because_the_game_is_over() -> None:
    game = TakeSix()
    state = games.new_state(game, 1)
    for _ in range(30):
        core.play(game, state, games.legal(game, state)[0])
    with pytest.raises(games.IllegalMove, match="legal: none, the game is over"):
        game.parse_action(state, "1@1")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"players": 6}, "players=6 is out of range; it must be between 2 and 5"),
        ({"players": 1}, "players=1 is out of range"),
        ({"cards": 105}, "cards=105 is out of range; it must be between 35 and 104"),
        ({"cards": 34}, "cards=34 is out of range; it must be between 35 and 104"),
        ({"rows": 9}, "rows=9 is out of range; it must be between 1 and 8"),
        ({"first_card": 2}, "first_card=2 is out of range; it must be between 0 and 1"),
        ({"points_of_55": 5}, "points_of_55=5 is out of range; it must be between 6 and 7"),
        ({"row_choice": "never"}, "row_choice='never' is unknown; it must be one of before, needed, after"),
        ({"ties": "both"}, "ties='both' is unknown; it must be one of shared, strict"),
        ({"encoding": "poor"}, "encoding='poor' is unknown; it must be one of rich, document"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters, match=f"take_six: {re.escape(said)}"):
        games.make("take_six", **parameters)


def test_an_impossible_deal_is_rejected() -> None:
    hands = [[*range(1, 11)], [*range(11, 21)], [*range(21, 31)]]
    with pytest.raises(games.GameError, match="needs 4 cards in rows and 3 hands of 10"):
        TakeSix().deal([31, 32, 33], hands)
    with pytest.raises(games.GameError, match="must be different and between 1 and 104"):
        TakeSix().deal([31, 32, 33, 30], hands)
    with pytest.raises(games.GameError, match="must be different and between 1 and 104"):
        TakeSix().deal([31, 32, 33, 105], hands)
