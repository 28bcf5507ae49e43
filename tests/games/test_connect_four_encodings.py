"""Encodings of Connect Four against a second implementation on a dictionary of cells, and the sizes of the thesis."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.connect_four import ConnectFour
from games.connect_four import columns as by_column
from games.connect_four.encodings import ENCODINGS
from games.core import make
from games.kit import bits
from games.reading import read_inputs

THESIS = ("naive", "extended", "feature")
BOARDS = [
    ConnectFour(),
    ConnectFour(rows=4, columns=5, connect=3),
    ConnectFour(rows=31, columns=2, connect=5),  # 64 bits exactly
    ConnectFour(columns=25),
    ConnectFour(rows=32, columns=3, connect=5),
    ConnectFour(rows=2, columns=9, connect=9),
    ConnectFour(rows=2, columns=2, connect=2),
]


def cells_of(game: ConnectFour, state: np.ndarray) -> dict[tuple[int, int], int]:
    """The owner of each stone by (column, row from the bottom)."""
    return {(x, y): "XO".index(mark) for x, stack in enumerate(game.stacks(state)) for y, mark in enumerate(stack)}


def completes(game: ConnectFour, stones: dict[tuple[int, int], int], cell: tuple[int, int], player: int) -> bool:
    """Whether a stone of the player on the cell is part of a line: place it, and look through all windows around it."""
    placed = {**stones, cell: player}
    for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for first in range(-game.connect + 1, 1):
            window = [(cell[0] + k * dx, cell[1] + k * dy) for k in range(first, first + game.connect)]
            if all(placed.get(other) == player for other in window):
                return True
    return False


def wanted_inputs(game: ConnectFour, state: np.ndarray, viewer: int) -> list[float]:
    """The vector of the thesis, its cells row by row from the top."""
    stones, other = cells_of(game, state), 1 - viewer
    order = [(x, y) for y in reversed(range(game.rows)) for x in range(game.columns)]
    mine_to_move = (len(stones) % 2) == viewer
    if ENCODINGS[game.encoding] == "naive":
        worth = {viewer: 1.0, other: -1.0}
        return [*(worth.get(stones.get(cell), 0.0) for cell in order), 1.0 if mine_to_move else -1.0]
    planes = [
        [float(stones.get(cell) == viewer) for cell in order],
        [float(stones.get(cell) == other) for cell in order],
        [float(cell not in stones) for cell in order],
    ]
    if ENCODINGS[game.encoding] == "feature":
        planes += [
            [float(cell not in stones and completes(game, stones, cell, player)) for cell in order]
            for player in (viewer, other)
        ]
    return [*(bit for plane in planes for bit in plane), float(mine_to_move), float(not mine_to_move)]


def inputs(game: ConnectFour, state: np.ndarray, viewer: int) -> np.ndarray:
    """What a perceptron reads."""
    spec = game.spec()
    return read_inputs(bits.unpack(games.encode_for(game, state, viewer), spec.planes), spec.reading)


@pytest.mark.parametrize(
    ("columns", "sizes"), [(7, (43, 128, 212)), (25, (151, 452, 752)), (50, (301, 902, 1502))], ids=["6x7", "6x25", "6x50"]
)
def test_the_inputs_are_as_many_as_in_the_thesis(columns: int, sizes: tuple[int, ...]) -> None:
    for encoding, wanted in zip(THESIS, sizes, strict=True):
        game = make("connect_four", columns=columns, encoding=encoding)
        assert game.spec().num_inputs == wanted
        assert inputs(game, games.new_state(game), 0).shape == (wanted,)
    assert make("connect_four", columns=columns).spec().num_inputs == 3 * 6 * columns


@pytest.mark.parametrize("encoding", THESIS)
@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_every_encoding_agrees_with_place_and_test_for_both_viewers(board: ConnectFour, encoding: str) -> None:
    game = board._replace(encoding=ENCODINGS.index(encoding))
    rng = np.random.default_rng(3)
    for _ in range(3):
        state = games.new_state(game)
        while True:
            for viewer in range(2):
                assert inputs(game, state, viewer).tolist() == wanted_inputs(game, state, viewer), game.draw(state)
            if not (moves := games.legal(game, state)):
                break
            core.play(game, state, int(rng.choice(moves)))


@pytest.mark.slow
def test_the_threats_of_a_thousand_positions_agree_in_both_forms_and_with_place_and_test() -> None:
    game = ConnectFour(encoding=ENCODINGS.index("feature"))
    rng, seen, unsupported = np.random.default_rng(8), 0, 0
    while seen < 1_000:
        state = games.new_state(game)
        words = np.zeros(8, dtype=np.uint64)
        while moves := games.legal(game, state):
            action, player = int(rng.choice(moves)), core.to_move(game, state)
            core.play(game, state, action)
            by_column.play(game, words, action, player)
            planes = bits.unpack(games.encode_for(game, state, 0), game.spec().planes)
            stones = cells_of(game, state)
            for player in range(2):
                for x in range(7):
                    found = int(by_column.threats(game, words, x, player))
                    assert [found >> y & 1 for y in range(6)] == planes[3 + player, ::-1, x].tolist()
                    for y in range(len(game.column(state, x)), 6):
                        assert found >> y & 1 == completes(game, stones, (x, y), player)
                        unsupported += (found >> y & 1) and y > len(game.column(state, x))
            seen += 1
    assert unsupported > 100


def test_a_threat_counts_above_an_empty_cell_and_for_both_players() -> None:
    game = make("connect_four", encoding="feature")
    #   4 . . . . . . .
    #   3 . . . . . . .
    #   2 . O O O . . .      a2 and e2 are threats of O; e2 lies above the empty cell e1
    #   1 X X X O . X .      e1 is none of X: b1 to e1 has a stone of O
    state = games.replay(game, games.read_moves(game, "b1 b2 c1 c2 a1 d1 f1 d2"))
    mine, other = bits.unpack(games.encode_for(game, state, 1), game.spec().planes)[3:5]
    assert sorted((5 - y, x) for y, x in np.argwhere(mine).tolist()) == [(1, 0), (1, 4)]
    assert not other.any()


def test_the_naive_encoding_is_one_number_per_cell_and_the_turn() -> None:
    game = make("connect_four", rows=2, columns=3, connect=3, encoding="naive")
    state = games.replay(game, games.read_moves(game, "a1 b1 a2"))
    assert inputs(game, state, 0).tolist() == [1, 0, 0, 1, -1, 0, -1]
    assert inputs(game, state, 1).tolist() == [-1, 0, 0, -1, 1, 0, 1]


@pytest.mark.parametrize("encoding", ["extended", "feature"])
def test_one_of_three_bits_per_cell_and_one_of_two_turns_is_set(encoding: str) -> None:
    game = make("connect_four", encoding=encoding)
    state = games.replay(game, [3, 3, 2, 4, 0])
    found = inputs(game, state, 1)
    assert (found[:126].reshape(3, 42).sum(axis=0) == 1).all()
    assert found[-2:].sum() == 1


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_keeps_the_laws_with_its_mirror(encoding: str) -> None:
    for columns in (5, 17):  # a bitboard, and a word per column
        games.check_game(make("connect_four", rows=4, columns=columns, encoding=encoding), games=2)


@pytest.mark.parametrize("encoding", THESIS)
def test_two_move_orders_to_one_board_give_the_same_vector(encoding: str) -> None:
    game = make("connect_four", encoding=encoding)
    one, two = (games.replay(game, games.read_moves(game, moves)) for moves in ("d1 e1 c1 b1", "c1 b1 d1 e1"))
    assert np.array_equal(inputs(game, one, 1), inputs(game, two, 1))


def test_the_view_of_the_other_player_exchanges_stones_threats_and_turn() -> None:
    game = make("connect_four", encoding="feature")
    state = games.replay(game, games.read_moves(game, "d1 e1 d2 e2 d3 e3"))
    mine, other = (bits.unpack(games.encode_for(game, state, viewer), game.spec().planes) for viewer in range(2))
    assert np.array_equal(mine[[1, 0, 2, 4, 3, 6, 5]], other)
    assert mine[3].any()
    assert mine[4].any()
