"""Chinese Checkers on the rhombus: names of moves, refusals, pictures and parameters."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import games
from games.chinese_checkers.rhombus import ChineseCheckersRhombus


def test_moves_are_parsed_with_and_without_the_dash() -> None:
    game = ChineseCheckersRhombus()
    state = games.replay(game, games.read_moves(game, "a3-a5"))
    for action in games.legal(game, state):
        name = game.action_name(state, action)
        for text in (name, name.upper(), f"  {name.replace('-', '')} "):
            assert game.parse_action(state, text) == action


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a3-a6", "(no step or chain of hops leads from a3 to a6); legal: c1-e1 c1-c3 "),
        ("a1-a2", "(a2 is occupied)"),
        ("i9-i8", "(i9 holds no piece of X)"),
        ("e5-e6", "(e5 holds no piece of X)"),
        ("a3-a0", "(cells are a1 to i9, a move is two cells, such as a3-a5)"),
        ("a3", "(cells are a1 to i9"),
        ("j1-a1", "(cells are a1 to i9"),
        ("", "'' is not a legal move here"),
        ("a3-a5-a7", "(cells are a1 to i9"),
    ],
)
def test_an_illegal_move_is_rejected_with_the_reason(text: str, said: str) -> None:
    game = ChineseCheckersRhombus()
    with pytest.raises(games.IllegalMove) as refusal:
        game.parse_action(games.new_state(game), text)
    assert said in str(refusal.value)
    assert "c1-e1" in str(refusal.value)


def test_no_move_can_be_parsed_after_the_end() -> None:
    game = ChineseCheckersRhombus(ply_cap=1)
    state = games.replay(game, games.read_moves(game, "a3-a5"))
    with pytest.raises(games.IllegalMove, match="the game is over"):
        game.parse_action(state, "i6-i5")


def test_the_picture_shows_the_board_and_a_caption() -> None:
    game = ChineseCheckersRhombus()
    state = games.replay(game, games.read_moves(game, "a3-a5, g9-e9"))
    assert game.draw(state).splitlines() == [
        "         O",
        "        O O",
        "       . O O",
        "      O O O O",
        "     O . . . .",
        "    . . . . . .",
        "   . . . . . . .",
        "  . . . . . . . .",
        " . . . . . . . . .",
        "9 . . . . . . . . i",
        " 8 . . . . . . . h",
        "  7 . . . . . . g",
        "   6 X . . . . f",
        "    5 X X X X e",
        "     4 . X X d",
        "      3 X X c",
        "       2 X b",
        "        1 a",
        "X 118, O 118 levels to go, X to move",
    ]


def test_the_svg_shows_81_cells_and_20_pieces_on_a_diamond() -> None:
    game = ChineseCheckersRhombus()
    document = ET.fromstring(game.draw_svg(games.new_state(game)))
    shapes = [element.tag.rpartition("}")[2] for element in document]
    assert (shapes.count("polygon"), shapes.count("circle")) == (81, 20)
    circles = [element for element in document if element.tag.endswith("circle")]
    lowest, highest = circles[0], circles[-1]
    assert float(lowest.attrib["cy"]) > float(highest.attrib["cy"])
    assert lowest.attrib["cx"] == highest.attrib["cx"]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"ply_cap": 0}, "ply_cap=0 is out of range; it must be between 1 and 10000"),
        ({"ply_cap": "10001"}, "ply_cap=10001 is out of range"),
        ({"repetitions": -1}, "repetitions=-1 is out of range; it must be 0 (off) or between 2 and 8"),
        ({"repetitions": 1}, "repetitions=1 is out of range; it must be 0 (off) or between 2 and 8"),
        ({"repetitions": 9}, "repetitions=9 is out of range"),
        ({"remembered": 4}, "remembered=4 is out of range; it must be between 5 and 256"),
        ({"repetitions": 3, "remembered": 8}, "remembered=8 is out of range; it must be between 9 and 256"),
        ({"long_hops": "maybe"}, "long_hops='maybe' is not bool; the default is False"),
        ({"players": 3}, "has no parameter players; expected anti_spoiling, ply_cap"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters) as refusal:
        games.make("chinese_checkers_rhombus", **parameters)
    assert said in str(refusal.value)
