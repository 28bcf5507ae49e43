"""Abalone's moves by number, their images under the symmetries, and how they are written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import games
from games import core
from games.abalone import Abalone, board
from games.abalone.bitboard import word
from games.kit import bits
from games.notation import legal_names

PATTERN = re.compile(r"([A-I][1-9])([A-I][1-9])?(NE|E|SE|SW|W|NW)")
NAMES = {count: [str(move) for move in board.moves(count)] for count in board.NUMBERS_OF_MOVES}


def position(first: str, second: str, *, player: int = 0) -> np.ndarray:
    """The state with marbles of both players on the cells named, and `player` to move."""
    return np.array([word(first), word(second), player], dtype=np.uint64)


def refusal(state: np.ndarray, text: str, game: Abalone = Abalone()) -> str:  # noqa: B008  (a tuple)
    with pytest.raises(games.IllegalMove) as raised:
        game.parse_action(state, text)
    return str(raised.value)


def test_the_rows_have_five_to_nine_cells() -> None:
    rows = [[column + 1 for row, column in board.CELLS if row == wanted] for wanted in range(9)]
    assert [len(row) for row in rows] == [5, 6, 7, 8, 9, 8, 7, 6, 5]
    assert [(row[0], row[-1]) for row in rows] == [(1, 5), (1, 6), (1, 7), (1, 8), (1, 9), (2, 9), (3, 9), (4, 9), (5, 9)]
    assert len(board.CELLS) == 61


def test_cube_coordinates_are_distinct_and_sum_to_0() -> None:
    cubes = {board.cell_name(cell): board.cube(cell) for cell in board.CELLS}
    assert cubes["E5"] == (0, 0, 0)
    assert cubes["A1"] == (-4, 4, 0)
    assert all(sum(cube) == 0 and max(map(abs, cube)) <= 4 for cube in cubes.values())
    assert len(set(cubes.values())) == 61


def test_the_table_holds_every_move_once() -> None:
    every = board.moves(1452)
    assert len(set(NAMES[1452])) == len(every) == 1452
    in_line = [move for move in every if not move.is_sideways]
    sideways = [move for move in every if move.is_sideways]
    assert len(in_line) == 312
    assert [sum(len(move.line) == length for move in sideways) for length in (2, 3)] == [624, 516]
    dead = [move for move in every if not move.stays_on_board]
    assert [sum(len(move.line) == length for move in dead) for length in (1, 2, 3)] == [0, 96, 84]


def test_the_smaller_table_omits_moves_that_leave_the_board() -> None:
    assert len(board.moves(1272)) == 1272
    assert list(board.moves(1272)) == [move for move in board.moves(1452) if move.stays_on_board]


def test_moves_have_their_documented_numbers() -> None:
    wanted = {0: "A1NE", 1: "A1B2E", 9: "A1E", 18: "A1NW", 27: "A2NE", 365: "C3C5NW", 805: "E5NE", 814: "E5E"}
    wanted |= {1449: "I9SE", 1450: "I9SW", 1451: "I9W"}
    assert {number: NAMES[1452][number] for number in wanted} == wanted


@pytest.mark.parametrize("actions", board.NUMBERS_OF_MOVES)
def test_every_move_has_a_unique_notation_and_is_parsed_where_legal(actions: int) -> None:
    game = Abalone(actions=actions)
    for number, move in enumerate(board.moves(actions)):
        name = str(move)
        assert PATTERN.fullmatch(name)
        if not move.stays_on_board:
            continue
        mine = " ".join(board.cell_name(cell) for cell in move.line)
        state = position(mine, "")
        assert game.action_name(state, number) == name
        assert game.parse_action(state, name) == number


def test_moves_that_leave_the_board_are_never_legal() -> None:
    for number, move in enumerate(board.moves(1452)):
        if not move.stays_on_board:
            state = position(" ".join(board.cell_name(cell) for cell in move.line), "")
            assert number not in games.legal(Abalone(), state)
            assert "(a marble would leave the board)" in refusal(state, str(move))


ROTATIONS = ("rotate60", "rotate120", "rotate180", "rotate240", "rotate300")
MIRRORS = ("mirror_q", "mirror_r", "mirror_s", "rotate180_mirror_q", "rotate180_mirror_r", "rotate180_mirror_s")
IMAGES = {
    "A1NE": "E1E I5SE I9SW E9W A5NW E1E A5NW I9SW E9W I5SE A1NE",
    "C3C5NW": "C3E3NE E3G5E G5G7SE E7G7SW C5E7W E3G5SE C3C5NE E7G7W C5E7NW G5G7SW C3E3E",
    "G5H6W": "G7G8NW D7E7NE B4C5E C2C3SE E3F3SW C5C6SW G7H7E D2E3NW G4G5NE B3C3W E7F8SE",
    "A1A3NW": "C1E1NE G3I5E I7I9SE E9G9SW A5C7W E1G3SE A3A5NE G9I9W C7E9NW I5I7SW A1C1E",
}


@pytest.mark.parametrize("actions", board.NUMBERS_OF_MOVES)
def test_symmetries_map_moves_to_known_images(actions: int) -> None:
    names = NAMES[actions]
    symmetries = {symmetry.name: symmetry for symmetry in Abalone(actions=actions).spec().symmetries}
    assert tuple(symmetries) == ROTATIONS + MIRRORS
    for name, images in IMAGES.items():
        found = [names[symmetries[symmetry].actions[names.index(name)]] for symmetry in ROTATIONS + MIRRORS]
        assert found == images.split(), name


@pytest.mark.parametrize("actions", board.NUMBERS_OF_MOVES)
def test_the_symmetries_and_the_identity_are_a_group(actions: int) -> None:
    symmetries = Abalone(actions=actions).spec().symmetries
    identity = (tuple(range(81)), tuple(range(actions)))
    group = {(tuple(s.cells.tolist()), tuple(s.actions.tolist())) for s in symmetries} | {identity}
    assert len(group) == 12
    for cells, moves in group:
        for then_cells, then_moves in group:
            # cells say where a cell comes from, actions where an action goes: they compose in opposite orders
            both = tuple(cells[i] for i in then_cells), tuple(then_moves[a] for a in moves)
            assert both in group


def planes(game: Abalone, state: np.ndarray) -> np.ndarray:
    return bits.unpack(games.encode_for(game, state, 0), game.spec().planes)[:2].reshape(2, 81)


def test_the_start_has_six_images_and_an_asymmetric_position_twelve() -> None:
    game = Abalone()
    start = games.new_state(game)
    later = games.replay(game, games.read_moves(game, "A1NE I5SE B1NE"))
    for state, images in ((start, 6), (later, 12)):
        seen = {planes(game, state).tobytes()} | {planes(game, state)[:, s.cells].tobytes() for s in game.spec().symmetries}
        assert len(seen) == images


def turned(state: np.ndarray, symmetry: core.Symmetry) -> np.ndarray:
    """The image of a state, by way of its planes."""
    image = planes(Abalone(), state)[:, symmetry.cells]
    words = [" ".join(board.cell_name(cell) for cell in board.CELLS if plane[board.plane_cell(cell)]) for plane in image]
    return position(*words, player=int(state[2]))


@pytest.mark.parametrize("name", ROTATIONS + MIRRORS)
def test_moves_commute_with_symmetries(name: str) -> None:
    game, rng = Abalone(), np.random.default_rng(5)
    symmetry = next(symmetry for symmetry in game.spec().symmetries if symmetry.name == name)
    for layout in board.LAYOUTS:
        state = games.new_state(Abalone(layout=layout))
        for _ in range(12):
            legal = games.legal(game, state)
            image = turned(state, symmetry)
            assert games.legal(game, image) == sorted(int(symmetry.actions[action]) for action in legal)
            action = int(rng.choice(legal))
            core.play(game, state, action)
            core.play(game, image, int(symmetry.actions[action]))
            assert np.array_equal(turned(state, symmetry), image)


def test_case_is_ignored() -> None:
    game = Abalone()
    state = games.new_state(game)
    assert game.parse_action(state, " c3c5nw ") == 365
    assert game.parse_action(state, "a1Ne") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a legal move here (a move is a cell and a direction, such as A1NE, or both ends of a line"),
        ("A1N", "(a move is a cell and a direction, such as A1NE, or both ends"),
        ("A9E", "'A9E' is not a legal move here (there is no cell A9; row A has A1 to A5); legal: A1NE"),
        ("C3I1NW", "(there is no cell I1; row I has I5 to I9)"),
        ("C3C4C5NW", "(a move is a cell"),
        ("C3D5NW", "(C3 and D5 are not the ends of a line of two or three)"),
        ("A1A4NW", "(A1 and A4 are not the ends of a line of two or three)"),
        ("C3C3NW", "(C3 and C3 are not the ends of a line of two or three)"),
        ("C5C3NW", "(the lower end comes first: C3C5NW)"),
        ("C3C5W", "(that is a move in line, written C5W)"),
        ("C3C5E", "(that is a move in line, written C3E)"),
        ("D4NE", "(D4 holds no marble of X)"),
        ("I5SE", "(I5 holds no marble of X)"),
        ("C4C6NW", "(C6 holds no marble of X)"),
        ("A1A2NW", "(B1 is occupied, and sideways moves cannot push)"),
        ("A1A2SE", "(a marble would leave the board)"),
        ("A1SW", "(A1 would leave the board)"),
        ("A1E", "(5 marbles are in that line; at most three can move)"),
    ],
)
def test_an_illegal_move_is_rejected_with_the_reason_and_the_legal_moves(text: str, said: str) -> None:
    game = Abalone()
    state = games.new_state(game)
    message = refusal(state, text)
    assert said in message
    assert message.endswith(f"; legal: {' '.join(legal_names(game, state))}")


def test_the_rejection_names_the_player_to_move() -> None:
    game = Abalone()
    state = games.replay(game, games.read_moves(game, "A1NE"))
    assert "(A2 holds no marble of O)" in refusal(state, "A2NE")


def test_no_move_can_be_parsed_after_the_end() -> None:
    game = Abalone(ply_cap=1)
    state = games.replay(game, games.read_moves(game, "A1NE"))
    assert refusal(state, "A2NE", game) == "'A2NE' is not a legal move here: the game is over"
