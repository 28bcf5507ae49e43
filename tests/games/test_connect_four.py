"""Connect Four: lines, ends, both forms of the board against a naive one, notation and parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import games
from games import core
from games.compiled import compiled
from games.connect_four import ConnectFour, bitboard
from games.connect_four import columns as connect_four_columns
from games.kit import bits
from games.kit.randomness import uniform_int

BOARDS = [
    ConnectFour(),
    ConnectFour(rows=4, columns=5, connect=3),
    ConnectFour(rows=31, columns=2, connect=5),  # 64 bits exactly
    ConnectFour(rows=7, columns=8),  # 64 bits exactly
    ConnectFour(rows=8, columns=8),  # just over
    ConnectFour(rows=32, columns=3, connect=5),
    ConnectFour(rows=3, columns=30, connect=5),
    ConnectFour(rows=2, columns=2, connect=2),
]


def lines_of_four() -> Iterator[list[tuple[int, int]]]:
    """All lines of 6 x 7 as (column, row) cells, rows counted from the bottom."""
    for x in range(7):
        for y in range(6):
            for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
                cells = [(x + k * dx, y + k * dy) for k in range(4)]
                if all(0 <= cx < 7 and 0 <= cy < 6 for cx, cy in cells):
                    yield cells


def position_before(line: list[tuple[int, int]], last: tuple[int, int], spoiled: tuple[int, int] | None) -> np.ndarray:
    """Player 0 owns the line but for `last` and `spoiled`; player 1 owns what lies under it. Player 0 is to move."""
    state = np.zeros(3, dtype=np.uint64)
    mine = {cell for cell in line if cell not in {last, spoiled}}
    for x, y in line:
        top = y if (x, y) == last else y + 1
        for below in range(top):
            owner = 0 if (x, below) in mine else 1
            state[1 + owner] |= np.uint64(1 << (x * 7 + below))
    state[2] &= ~state[1]
    return state


def finishing_moves() -> list[tuple[list[tuple[int, int]], tuple[int, int]]]:
    """Every line with every cell that can be filled last."""
    return [(line, last) for line in lines_of_four() for last in line if line[0][0] != line[1][0] or last == line[3]]


def test_there_are_69_lines_of_four() -> None:
    lines = list(lines_of_four())
    steps = [(line[1][0] - line[0][0], line[1][1] - line[0][1]) for line in lines]
    assert [steps.count(step) for step in ((1, 0), (0, 1), (1, 1), (1, -1))] == [24, 21, 12, 12]


def test_each_of_the_69_lines_wins_whichever_cell_is_filled_last() -> None:
    game = ConnectFour()
    for line, last in finishing_moves():
        state = position_before(line, last, spoiled=None)
        core.play(game, state, last[0])
        assert core.is_over(game, state), f"{line} filled last at {last}\n{game.draw(state)}"
        assert games.final_scores(game, state) == (1.0, -1.0)


def test_three_of_a_line_do_not_win() -> None:
    game = ConnectFour()
    for line, last in finishing_moves():
        for spoiled in set(line) - {last}:
            state = position_before(line, last, spoiled)
            core.play(game, state, last[0])
            assert not core.is_over(game, state), f"{line} without {spoiled}\n{game.draw(state)}"


def test_the_column_form_finds_the_same_69_lines() -> None:
    game = ConnectFour()
    for line, last in finishing_moves():
        state = columns_from_bits(position_before(line, last, spoiled=None))
        assert connect_four_columns.play(game, state, last[0], 0), f"{line} filled last at {last}"


def columns_from_bits(state: np.ndarray) -> np.ndarray:
    """The column form of a bitboard of 6 x 7."""
    words = [state[0]]
    for x in range(7):
        first, second = (int(state[1 + player]) >> (7 * x) & 0x3F for player in range(2))
        words.append(np.uint64(first | second << 32))
    return np.array(words, dtype=np.uint64)


def test_both_forms_agree_on_random_games() -> None:
    game = ConnectFour()
    rng = np.random.default_rng(5)
    for _ in range(50):
        state = games.new_state(game)
        columns = np.zeros(8, dtype=np.uint64)
        while moves := games.legal(game, state):
            listed = np.empty(7, dtype=np.int16)
            assert listed[: connect_four_columns.legal(game, columns, listed)].tolist() == moves
            player, action = core.to_move(game, state), int(rng.choice(moves))
            core.play(game, state, action)
            won = connect_four_columns.play(game, columns, action, player)
            assert won == (int(state[0] >> np.uint64(32)) in (1, 2))
            columns[0] = state[0]
            assert np.array_equal(columns, columns_from_bits(state))
            packed = [np.zeros(16, dtype=np.uint8) for _ in range(2)]
            bitboard.encode_stones(game, state, player, packed[0])
            connect_four_columns.encode_stones(game, columns, player, packed[1])
            assert np.array_equal(*packed)


@pytest.mark.parametrize("game", BOARDS, ids=str)
def test_every_size_agrees_with_a_naive_board(game: ConnectFour, naive: type) -> None:
    rng = np.random.default_rng(11)
    for _ in range(4):
        state, board = games.new_state(game), naive(game)
        while True:
            assert games.legal(game, state) == board.legal()
            assert core.is_over(game, state) == board.over()
            viewer = int(rng.integers(2))
            planes = bits.unpack(games.encode_for(game, state, viewer), game.spec().planes)
            assert planes.tolist() == board.planes(viewer)
            if board.over():
                break
            action = int(rng.choice(board.legal()))
            core.play(game, state, action)
            board.play(action)
        wanted = {None: (0.0, 0.0), 0: (1.0, -1.0), 1: (-1.0, 1.0)}[board.winner]
        assert games.final_scores(game, state) == wanted


@pytest.mark.parametrize("game", BOARDS, ids=str)
def test_every_size_keeps_the_laws(game: ConnectFour) -> None:
    games.check_game(game, games=3)


def test_a_full_board_without_a_line_is_drawn() -> None:
    #   X X O X O O O
    #   O X X O X X X
    #   X O O X O X O
    #   O X X O O X O
    #   X O X X X O X
    #   O O X O O X O
    game = ConnectFour()
    moves = "fffafeeggdfbdfcbcdaebedaccc" + "baaacbgbdeedggg"
    state = games.replay(game, games.read_moves(game, " ".join(moves)))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (0.0, 0.0)
    assert games.legal(game, state) == []


def test_a_line_on_the_last_empty_cell_wins() -> None:
    #   X O O
    #   X O X      a3 is the last cell
    #   X X O
    game = ConnectFour(rows=3, columns=3, connect=3)
    state = games.replay(game, games.read_moves(game, "a c c c b b a b a"))
    assert games.final_scores(game, state) == (1.0, -1.0)


def test_full_columns_are_not_listed() -> None:
    game = ConnectFour()
    state = games.replay(game, games.read_moves(game, "c c c c c c d d d d d d b e f"))
    assert [game.action_name(state, action) for action in games.legal(game, state)] == ["a1", "b2", "e2", "f2", "g1"]


def test_an_encoded_position_has_sixteen_bytes() -> None:
    assert ConnectFour().spec().packed_bytes == 16


def test_the_mirror_swaps_columns() -> None:
    mirror = ConnectFour().spec().symmetries[0]
    assert mirror.name == "mirror"
    assert mirror.actions.tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert mirror.cells.reshape(6, 7)[1].tolist() == [13, 12, 11, 10, 9, 8, 7]


def test_columns_past_z_have_two_letters() -> None:
    game = ConnectFour(columns=60)
    state = games.replay(game, [25, 26, 51, 52, 26])
    names = [game.action_name(state, action) for action in (0, 25, 26, 51, 52, 59)]
    assert names == ["a1", "z2", "aa3", "az2", "ba2", "bh1"]
    assert [game.parse_action(state, name) for name in names] == [0, 25, 26, 51, 52, 59]
    assert game.parse_action(state, " AA ") == 26


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("d2", "the next stone in column d falls to d3"),
        ("c7", "column c is full"),
        ("c", "column c is full"),
        ("h1", "'h1' is not a legal move here; legal: a1 b1 d3"),
        ("4", "'4' is not a legal move here; legal: a1"),
        ("", "'' is not a legal move here; legal: a1"),
    ],
)
def test_an_illegal_move_is_rejected_with_the_reason(text: str, said: str) -> None:
    game = ConnectFour()
    state = games.replay(game, games.read_moves(game, "d d c c c c c c"))
    with pytest.raises(games.IllegalMove) as refusal:
        game.parse_action(state, text)
    assert said in str(refusal.value)


def test_no_move_can_be_parsed_after_the_end() -> None:
    game = ConnectFour()
    state = games.replay(game, games.read_moves(game, "a b a b a b a"))
    with pytest.raises(games.IllegalMove, match="the game is over"):
        game.parse_action(state, "a")


def test_the_picture_shows_the_stones_and_labels() -> None:
    game = ConnectFour()
    state = games.replay(game, games.read_moves(game, "d1 d2 c1"))
    assert game.draw(state).splitlines() == [
        "6 | . . . . . . . |",
        "5 | . . . . . . . |",
        "4 | . . . . . . . |",
        "3 | . . . . . . . |",
        "2 | . . . O . . . |",
        "1 | . . X X . . . |",
        "    a b c d e f g",
    ]


def test_the_picture_of_a_wide_board_writes_long_names_downwards() -> None:
    game = ConnectFour(rows=2, columns=28)
    bottom, upper, lower = game.draw(games.new_state(game)).splitlines()[1:]
    assert upper == " " * 56 + "a a"
    assert lower == "    " + " ".join("abcdefghijklmnopqrstuvwxyzab")
    assert len(bottom) == len(lower) + 2


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"rows": 1}, "rows=1 is out of range; it must be between 2 and 32"),
        ({"rows": 33}, "rows=33 is out of range"),
        ({"columns": 0}, "columns=0 is out of range; it must be between 2 and 512"),
        ({"columns": "513"}, "columns=513 is out of range"),
        ({"connect": 8}, "connect=8 is out of range; it must be between 2 and 7"),
        ({"connect": "four"}, "connect='four' is not int; the default is 4"),
        ({"rows": 6.5}, "rows=6.5 is not int"),
        ({"width": 7}, "has no parameter width; expected rows, columns, connect, encoding"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters) as refusal:
        games.make("connect_four", **parameters)
    assert said in str(refusal.value)


@compiled
def random_games(game: ConnectFour, count: int, seed: int, state: np.ndarray, tally: np.ndarray) -> None:
    """Play random games; tally counts wins of player 0, wins of player 1, draws and plies (int64 [4])."""
    word = np.array([seed], dtype=np.uint64)
    listed = np.empty(game.columns, dtype=np.int16)
    scores = np.empty(2, dtype=np.float32)
    for _ in range(count):
        core.reset(game, state, 0)
        while not core.is_over(game, state):
            moves = core.legal_actions(game, state, listed)
            core.play(game, state, listed[uniform_int(word, moves)])
            tally[3] += 1
        core.scores(game, state, scores)
        tally[0 if scores[0] > 0 else 1 if scores[0] < 0 else 2] += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "count", "first", "second", "plies"),
    [(7, 100_000, 0.556, 0.4415, 21.3), (25, 40_000, 0.539, 0.461, 36.1), (50, 20_000, 0.524, 0.476, 51.2)],
)
def test_random_games_match_known_statistics(columns: int, count: int, first: float, second: float, plies: float) -> None:
    game = ConnectFour(columns=columns)
    tally = np.zeros(4, dtype=np.int64)
    random_games(game, count, 9, games.new_state(game), tally)
    deviation = (0.25 / count) ** 0.5
    assert tally[0] / count == pytest.approx(first, abs=4 * deviation + 0.001)
    assert tally[1] / count == pytest.approx(second, abs=4 * deviation + 0.001)
    assert tally[3] / count == pytest.approx(plies, abs=0.4)
