"""Chinese Checkers on 37 fields: how moves are read and written, and pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.chinese_checkers.star37 import ChineseCheckersStar37
from games.notation import legal_names

GAME = ChineseCheckersStar37()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("text", ["c2-c4", " C2-C4 ", "c2c4"])
def test_a_move_is_parsed_in_every_accepted_form(text: str) -> None:
    assert GAME.action_name(games.new_state(GAME), GAME.parse_action(games.new_state(GAME), text)) == "c2-c4"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pass", r" \(passing is legal only if no piece can move\)"),
        ("c3-c3", r" \(c3 is occupied\)"),
        ("c3-d3", r" \(d3 is occupied\)"),
        ("c3-b3", r" \(b3 is in a corner of another player\)"),
        ("c3-e5", r" \(no hop or legal chain of jumps leads from c3 to e5\)"),
        ("c4-c5", r" \(c4 holds no piece of X, who is to move\)"),
        ("c7-c6", r" \(c7 holds no piece of X, who is to move\)"),
        ("c3-j9", r" \(there is no field j9\)"),
        ("up", ""),
        ("", ""),
    ],
)
def test_other_text_is_rejected_with_the_reason_and_the_legal_moves(text: str, why: str) -> None:
    listed = "c3-c4 c3-d4 d3-d4 d3-e4 e3-e4 e3-f4 d2-d4 d2-f4 c2-c4 c2-e4"
    with pytest.raises(games.IllegalMove, match=rf"^'{text}' is not a legal move here{why}; legal: {listed}$"):
        GAME.parse_action(games.new_state(GAME), text)


def test_after_the_end_every_move_is_rejected() -> None:
    short = GAME._replace(moves_cap=1)
    state = games.replay(short, games.read_moves(short, "c3-c4 d6-d5 g6-f6"))
    with pytest.raises(games.IllegalMove, match=r"^'pass' is not a legal move here: the game is over$"):
        short.parse_action(state, "pass")


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_names_of_moves_are_the_fields_on_the_board_for_every_seat(seed: int) -> None:
    rng, state = np.random.default_rng(seed), games.new_state(GAME)
    for _ in range(30):
        names = legal_names(GAME, state)
        before = GAME.draw(state)
        name = str(rng.choice(list(names)))
        core.play(GAME, state, names[name])
        if name == "pass":
            continue
        start, end = name.split("-")
        mark = "XOZ"[(core.to_move(GAME, state) - 1) % 3]
        assert (at(before, start), at(before, end)) == (mark, ".")
        assert (at(GAME.draw(state), start), at(GAME.draw(state), end)) == (".", mark)


def at(picture: str, name: str) -> str:
    """What a picture shows on a field: rows are named at both ends, so columns can be counted."""
    for line in picture.splitlines()[:9]:
        first, *row, _ = line.split()
        if first[1:] == name[1:]:
            return row[ord(name[0]) - ord(first[0])]
    raise AssertionError(name)


def test_the_svg_shows_every_field_every_piece_and_every_end_zone() -> None:
    root = ElementTree.fromstring(GAME.draw_svg(games.new_state(GAME)))
    circles = list(root.iter(f"{SVG}circle"))
    assert len(circles) == 37 + 18
    assert sum(circle.get("stroke-width") == "3" for circle in circles) == 18
    assert root.get("aria-label") == "Chinese Checkers on 37 fields, X 0, O 0, Z 0, X to move"
