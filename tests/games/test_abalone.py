"""Abalone: counts of moves, pushes, ends, scores, planes, keys and pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import games
from games import core
from games.abalone import Abalone
from games.abalone.bitboard import owners, word
from games.abalone.board import CELLS, cell_name
from games.kit import bits
from games.notation import legal_names
from games.tools.perft import perft


def position(first: str, second: str, *, player: int = 0, plies: int = 0) -> np.ndarray:
    """The state with marbles of both players on the cells named, after `plies` (made even or odd for `player`)."""
    return np.array([word(first), word(second), 2 * (plies // 2) + player], dtype=np.uint64)


def cells(state: np.ndarray, player: int) -> str:
    held = owners(state)
    return " ".join(cell_name(cell) for cell in CELLS if held.get(cell) == player)


def played(state: np.ndarray, text: str, game: Abalone = Abalone(captures=14)) -> tuple[str, str]:  # noqa: B008  (a tuple)
    """The cells of both players after a move."""
    core.play(game, state, game.parse_action(state, text))
    return cells(state, 0), cells(state, 1)


@pytest.mark.parametrize(
    ("layout", "counts"),
    [
        ("standard", [44, 1936, 98912, 5045110]),
        ("belgian_daisy", [52, 2692, 149322, 8270666]),
        ("german_daisy", [80, 6244, 493480, 38240570]),
    ],
)
@pytest.mark.slow
def test_sequence_counts_match_known_values(layout: str, counts: list[int]) -> None:
    assert perft(Abalone(layout=layout), 4) == counts
    assert perft(Abalone(layout=layout, actions=1272), 3) == counts[:3]


def test_the_start_has_44_moves_of_which_34_are_in_line() -> None:
    names = legal_names(Abalone(), games.new_state(Abalone()))
    assert len([name for name in names if name[1:].isalpha() or name[2:].isalpha()]) == 34
    assert len(names) == 44


def test_different_moves_lead_to_different_positions() -> None:
    game = Abalone(layout="german_daisy")
    state = games.new_state(game)
    after = set()
    for action in games.legal(game, state):
        child = state.copy()
        core.play(game, child, action)
        after.add(child[:2].tobytes())
    assert len(after) == 80


@pytest.mark.parametrize("layout", ["standard", "belgian_daisy", "german_daisy"])
def test_the_start_has_fourteen_marbles_each(layout: str) -> None:
    state = games.new_state(Abalone(layout=layout))
    holders = list(owners(state).values())
    assert [holders.count(player) for player in (0, 1)] == [14, 14]
    assert core.to_move(Abalone(), state) == 0


@pytest.mark.parametrize(
    ("mine", "theirs", "move", "after"),
    [
        ("C3 D4", "E5", "C3NE", ("D4 E5", "F6")),
        ("B2 C3 D4", "E5", "B2NE", ("C3 D4 E5", "F6")),
        ("B2 C3 D4", "E5 F6", "B2NE", ("C3 D4 E5", "F6 G7")),
        ("G7 H8", "I9", "G7NE", ("H8 I9", "")),
        ("F6 G7 H8", "I9", "F6NE", ("G7 H8 I9", "")),
        ("E5 F6 G7", "H8 I9", "E5NE", ("F6 G7 H8", "I9")),
        ("E3 E4 E5", "E2 E1", "E5W", ("E2 E3 E4", "E1")),
        ("C3 C4", "D3", "C3C4NW", None),
        ("C3", "D4", "C3NE", None),
        ("C3 D4", "E5 F6", "C3NE", None),
        ("B2 C3 D4", "E5 F6 G7", "B2NE", None),
        ("C3 D4", "E5 F6 G7", "C3NE", None),
        ("C3 D4 F6", "E5", "C3NE", None),
        ("C3 D4 E5", "F6 G7 H8", "D4NE", None),
        ("C3 D4 E5 F6", "G7", "C3NE", None),
        ("C3 D4 E5 F6", "G7", "D4NE", ("C3 E5 F6 G7", "H8")),
        ("C3 D4", "F6", "C3NE", ("D4 E5", "F6")),
        ("C3 C4 C5", "", "C3C5NW", ("D3 D4 D5", "")),
        ("H8 I9", "", "H8NE", None),
        ("I9", "", "I9NE", None),
    ],
)
def test_pushes_move_or_capture_and_illegal_pushes_are_rejected(
    mine: str, theirs: str, move: str, after: tuple[str, str] | None
) -> None:
    state = position(mine, theirs)
    if after is None:
        with pytest.raises(games.IllegalMove):
            played(state, move)
    else:
        assert played(state, move) == after


@pytest.mark.parametrize(
    ("mine", "theirs", "move", "said"),
    [
        ("C3", "D4", "C3NE", "1 cannot push 1"),
        ("C3 D4", "E5 F6", "C3NE", "2 cannot push 2"),
        ("B2 C3 D4", "E5 F6 G7", "B2NE", "3 cannot push 3"),
        ("C3 D4", "E5 F6 G7", "C3NE", "2 cannot push 3"),
        ("C3 D4 F6", "E5", "C3NE", "F6, behind the pushed marbles, is occupied"),
        ("C3 D4 E5 F6", "", "C3NE", "4 marbles are in that line; at most three can move"),
        ("C3 C4", "D4", "C3C4NW", "D4 is occupied, and sideways moves cannot push"),
        ("H8 I9", "", "H8NE", "I9 would leave the board"),
    ],
)
def test_rejections_name_the_obstacle(mine: str, theirs: str, move: str, said: str) -> None:
    with pytest.raises(games.IllegalMove) as refusal:
        Abalone().parse_action(position(mine, theirs), move)
    assert f"({said})" in str(refusal.value)


def row_of(count: int, *, without: str = "") -> str:
    """Marbles from the lower rows, as many as wanted."""
    names = [cell_name(cell) for cell in CELLS if cell_name(cell) not in without.split()]
    return " ".join(names[:count])


def test_the_sixth_capture_wins() -> None:
    game = Abalone()
    mine = row_of(12) + " G7 H8"
    state = position(mine, row_of(8, without=row_of(25)) + " I9")
    assert not core.is_over(game, state)
    played(state, "G7NE", game)
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (1.0, -1.0)
    assert games.legal(game, state) == []


def test_the_second_player_can_win() -> None:
    game = Abalone()
    state = position(row_of(8, without=row_of(25)) + " I9", row_of(12) + " G7 H8", player=1)
    played(state, "G7NE", game)
    assert games.final_scores(game, state) == (-1.0, 1.0)


def test_the_cap_scores_the_lead_in_captures() -> None:
    game = Abalone()
    state = position(row_of(13), row_of(11, without=row_of(25)), player=1, plies=198)
    core.play(game, state, games.legal(game, state)[0])
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == pytest.approx((2 / 6, -2 / 6))  # 3 captures against 1
    assert games.legal(game, state) == []


def test_equal_captures_at_the_cap_are_a_draw_and_the_game_is_over() -> None:
    game = Abalone(ply_cap=1)
    state = games.replay(game, games.read_moves(game, "A1NE"))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (0.0, 0.0)


def test_the_number_of_captures_to_win_is_a_parameter() -> None:
    game = Abalone(captures=1)
    state = position(row_of(12) + " G7 H8", row_of(13, without=row_of(25) + " I9") + " I9")
    played(state, "G7NE", game)
    assert games.final_scores(game, state) == (1.0, -1.0)


def blocked(game: Abalone) -> np.ndarray:
    """A position in which one marble on A1 cannot move after O's move, with 13 of X and 9 of O captured."""
    state = position("A1", "A2 A3 B2 C1 D4", player=1)
    played(state, "C1SE", game)
    return state


def test_the_game_ends_when_the_player_to_move_has_no_move() -> None:
    game = Abalone(captures=14)
    state = blocked(game)
    assert cells(state, 1) == "A2 A3 B1 B2 D4"
    assert core.is_over(game, state)
    assert core.to_move(game, state) == 0
    assert games.final_scores(game, state) == pytest.approx((-4 / 14, 4 / 14))
    losing = Abalone(captures=14, stalemate_loses=True)
    assert games.final_scores(losing, blocked(losing)) == (-1.0, 1.0)


def test_a_player_who_can_only_push_has_a_move() -> None:
    game = Abalone(captures=14)
    state = position("A1 A2", "A3 B1 B2 D3", player=1)
    played(state, "D3SE", game)
    assert cells(state, 1) == "A3 B1 B2 C3"
    assert not core.is_over(game, state)
    assert "A1E" in legal_names(game, state)


def test_ply_cost_reduces_the_scores() -> None:
    game = Abalone(ply_cost=0.001)
    state = position(row_of(13), row_of(11, without=row_of(25)), player=1, plies=198)
    core.play(game, state, games.legal(game, state)[0])
    assert games.final_scores(game, state) == pytest.approx((0.8 * 2 / 6, -0.8 * 2 / 6))


def test_standing_is_the_lead_in_captures() -> None:
    state = position(row_of(14), row_of(11, without=row_of(25)))
    out = np.empty(2, dtype=np.float32)
    core.standing(Abalone(), state, out)
    assert out == pytest.approx((0.5, -0.5))


def test_recurring_positions_have_equal_repetition_keys() -> None:
    around = "C3NE G5SW D4SW F4NE"
    for game, same in ((Abalone(), True), (Abalone(plies_left=True), False)):
        start, again = games.new_state(game), games.replay(game, games.read_moves(game, around))
        assert np.array_equal(start[:2], again[:2])
        assert core.repetition_key(game, start) == core.repetition_key(game, again)
        assert (core.key(game, start) == core.key(game, again)) == same
    other = start.copy()
    other[2] = 1
    assert core.repetition_key(Abalone(), start) != core.repetition_key(Abalone(), other)


def test_planes_have_row_I_first_and_the_viewer_as_me() -> None:
    game = Abalone()
    planes = bits.unpack(games.encode_for(game, games.new_state(game), 1), game.spec().planes)
    assert ["".join(map(str, row)) for row in planes[0]][:3] == ["000011111", "000111111", "000011100"]
    assert ["".join(map(str, row)) for row in planes[1]][6:] == ["001110000", "111111000", "111110000"]
    assert ["".join(map(str, row)) for row in planes[2]] == [
        "000011111",
        "000111111",
        "001111111",
        "011111111",
        "111111111",
        "111111110",
        "111111100",
        "111111000",
        "111110000",
    ]


def test_the_number_of_plies_left_is_encoded_in_binary_planes() -> None:
    game = Abalone(plies_left=True)
    assert game.spec().planes == (11, 9, 9)
    state = games.new_state(game)
    for plies in (0, 1, 73, 200):
        state[2] = plies
        planes = bits.unpack(games.encode_for(game, state, 0), game.spec().planes)[3:].reshape(8, 81)
        assert np.array_equal(planes.min(axis=1), planes.max(axis=1))
        assert sum(int(digit) << k for k, digit in enumerate(planes[:, 0])) == 200 - plies


@pytest.mark.parametrize(
    ("mine", "theirs", "move", "value"),
    [
        ("G7 H8", "I9", "G7NE", 100 - 2),
        ("C3 D4", "E5", "C3NE", 2 + 1),
        ("A1", "", "A1NE", 1),
        ("E5", "", "E5NE", -1),
        ("B3 B4", "", "B3B4NW", 2),
    ],
)
def test_move_value_prefers_captures_and_then_the_centre(mine: str, theirs: str, move: str, value: float) -> None:
    game, state = Abalone(), position(mine, theirs)
    assert core.move_value(game, state, game.parse_action(state, move)) == value


@pytest.mark.parametrize(
    "game",
    [
        Abalone(ply_cap=40),
        Abalone(layout="belgian_daisy", ply_cap=30, stalemate_loses=True, ply_cost=0.01),
        Abalone(layout="german_daisy", captures=1, actions=1272, plies_left=True, ply_cap=60),
    ],
)
@pytest.mark.slow
def test_every_variant_keeps_the_laws(game: Abalone) -> None:
    games.check_game(game, games=3)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"layout": "swiss_daisy"}, "layout='swiss_daisy' is unknown; it must be one of standard, belgian_daisy, german_daisy"),
        ({"captures": 0}, "abalone: captures=0 is out of range; it must be between 1 and 14"),
        ({"captures": 15}, "captures=15 is out of range"),
        ({"ply_cap": 0}, "abalone: ply_cap=0 is out of range; it must be between 1 and 1000000"),
        ({"actions": 1300}, "abalone: actions=1300 is out of range; it must be 1452 or 1272"),
        ({"ply_cost": -0.1}, "abalone: ply_cost=-0.1 is out of range; with ply_cap=200 it must be between 0 and 0.005"),
        ({"ply_cost": 0.01}, "ply_cost=0.01 is out of range"),
        ({"ply_cost": "nan"}, "ply_cost=nan is out of range"),
        ({"plies_left": "perhaps"}, "plies_left='perhaps' is not bool"),
        ({"size": 5}, "has no parameter size; expected layout, captures"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters) as refusal:
        games.make("abalone", **parameters)
    assert said in str(refusal.value)


def test_parameters_are_parsed_from_text() -> None:
    game = games.make("abalone", layout="belgian_daisy", captures="2", actions="1272", ply_cost="0.001", plies_left="true")
    assert game == Abalone(layout="belgian_daisy", captures=2, actions=1272, ply_cost=0.001, plies_left=True)


def test_the_picture_shows_letters_and_digits() -> None:
    game = Abalone()
    state = games.replay(game, games.read_moves(game, "C3C5NW G5SW"))
    assert game.draw(state).splitlines() == [
        "    I O O O O O",
        "   H O O O O O O",
        "  G . . . O O . .",
        " F . . O . . . . .",
        "E . . . . . . . . .",
        " D . . X X X . . . 9",
        "  C . . . . . . . 8",
        "   B X X X X X X 7",
        "    A X X X X X 6",
        "       1 2 3 4 5",
        "captured: X 0, O 0; ply 2 of 200; X to move",
    ]


def test_the_svg_shows_marbles_cells_and_captures() -> None:
    game = Abalone()
    document = game.draw_svg(position(row_of(13), row_of(9, without=row_of(25))))
    root = ElementTree.fromstring(document)
    shapes = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert shapes.count("polygon") == 61
    assert shapes.count("circle") == 28  # on the board and beside it
    assert "captured: X 5, O 1; ply 0 of 200; X to move" in document
