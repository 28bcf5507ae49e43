"""Abalone against a second set of rules: cube coordinates in a dictionary, one marble after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.abalone import Abalone, bitboard
from games.kit import bits
from games.notation import legal_names

Cube = tuple[int, int, int]
COMPASS: dict[str, Cube] = {
    "NE": (1, -1, 0),
    "E": (1, 0, -1),
    "SE": (0, 1, -1),
    "SW": (-1, 1, 0),
    "W": (-1, 0, 1),
    "NW": (0, -1, 1),
}
BOARD = {(q, r, -q - r) for q in range(-4, 5) for r in range(-4, 5) if abs(q + r) <= 4}


def name_of(cell: Cube) -> str:
    return "ABCDEFGHI"[4 - cell[1]] + str(cell[0] + 5)


WORDS = {cell: bitboard.word(name_of(cell)) for cell in BOARD}


def plus(cell: Cube, step: Cube, times: int = 1) -> Cube:
    return cell[0] + times * step[0], cell[1] + times * step[1], cell[2] + times * step[2]


class PlainAbalone:
    """A dictionary from cells to players, and moves as the changes they make to it."""

    def __init__(self, state: np.ndarray) -> None:
        words = {0: int(state[0]), 1: int(state[1])}
        held = itertools.product(words.items(), WORDS.items())
        self.marbles = {cell: player for (player, marbles), (cell, word) in held if marbles & word}
        self.mover = int(state[2]) & 1

    def moves(self) -> dict[str, dict[Cube, int]]:
        """The board after every legal move, by its name."""
        return dict([*self._in_line(), *self._sideways()])

    def _in_line(self) -> Iterator[tuple[str, dict[Cube, int]]]:
        own = [cell for cell, player in self.marbles.items() if player == self.mover]
        for cell, (direction, step) in itertools.product(own, COMPASS.items()):
            row = list(itertools.takewhile(self.marbles.__contains__, (plus(cell, step, i) for i in range(9))))
            marks = "".join("m" if self.marbles[at] == self.mover else "o" for at in row)
            has_room = plus(cell, step, len(row)) in BOARD
            if marks in ("mmo", "mmmo", "mmmoo") or (marks in ("m", "mm", "mmm") and has_room):
                moved = {plus(at, step): self.marbles[at] for at in row}
                rest = {at: player for at, player in self.marbles.items() if at not in row}
                yield name_of(cell) + direction, rest | {at: player for at, player in moved.items() if at in BOARD}

    def _sideways(self) -> Iterator[tuple[str, dict[Cube, int]]]:
        own = {cell for cell, player in self.marbles.items() if player == self.mover}
        for cell in own:
            for along in COMPASS.values():
                for length in (2, 3):
                    line = [plus(cell, along, i) for i in range(length)]
                    if own.issuperset(line) and name_of(line[0]) < name_of(line[-1]):
                        ends = name_of(line[0]) + name_of(line[-1])
                        yield from ((ends + name, board) for name, board in self._steps(line, along))

    def _steps(self, line: list[Cube], along: Cube) -> Iterator[tuple[str, dict[Cube, int]]]:
        for direction, step in COMPASS.items():
            targets = [plus(cell, step) for cell in line]
            if step in (along, plus((0, 0, 0), along, -1)) or not BOARD.issuperset(targets):
                continue
            if not self.marbles.keys() & set(targets):
                rest = {cell: player for cell, player in self.marbles.items() if cell not in line}
                yield direction, rest | dict.fromkeys(targets, self.mover)

    def planes(self, viewer: int) -> np.ndarray:
        planes = np.zeros((3, 9, 9), dtype=np.uint8)
        for q, r, s in BOARD:
            planes[2, r + 4, q + 4] = 1
            if (q, r, s) in self.marbles:
                planes[int(self.marbles[q, r, s] != viewer), r + 4, q + 4] = 1
        return planes


def scattered(rng: np.random.Generator) -> np.ndarray:
    """A position with marbles anywhere: crowded ones have many pushes."""
    cells = rng.permutation(61)
    first, second = int(rng.integers(1, 20)), int(rng.integers(1, 20))
    words = [sum(1 << int(cell) for cell in part) for part in (cells[:first], cells[first : first + second])]
    return np.array([*words, int(rng.integers(2))], dtype=np.uint64)


def agree(game: Abalone, state: np.ndarray) -> None:
    """Compare legal moves, the boards after them, and planes."""
    plain = PlainAbalone(state)
    expected = plain.moves()
    names = legal_names(game, state)
    assert sorted(names) == sorted(expected)
    for name, action in names.items():
        after = state.copy()
        core.play(game, after, action)
        assert PlainAbalone(after).marbles == expected[name], name
    for viewer in (0, 1):
        packed = games.encode_for(game, state, viewer)
        assert np.array_equal(bits.unpack(packed, game.spec().planes), plain.planes(viewer))


@pytest.mark.slow
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), actions=st.sampled_from([1452, 1272]))
def test_scattered_marbles_move_as_in_the_plain_rules(seed: int, actions: int) -> None:
    agree(Abalone(actions=actions, captures=14), scattered(np.random.default_rng(seed)))


@pytest.mark.slow
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), layout=st.sampled_from(["standard", "belgian_daisy", "german_daisy"]))
def test_positions_of_random_games_move_as_in_the_plain_rules(seed: int, layout: str) -> None:
    rng, game = np.random.default_rng(seed), Abalone(layout=layout)
    state = games.new_state(game)
    for _ in range(int(rng.integers(150))):
        if moves := games.legal(game, state):
            core.play(game, state, int(rng.choice(moves)))
    if not core.is_over(game, state):
        agree(game, state)


@pytest.mark.parametrize(("layout", "counts"), [("standard", [44, 1936]), ("belgian_daisy", [52, 2692])])
def test_the_plain_rules_count_the_first_moves(layout: str, counts: list[int]) -> None:
    def sequences(board: PlainAbalone, depth: int) -> int:
        after = board.moves()
        if depth == 1:
            return len(after)
        total = 0
        for marbles in after.values():
            board_after = PlainAbalone(np.array([0, 0, 1 - board.mover], dtype=np.uint64))
            board_after.marbles = marbles
            total += sequences(board_after, depth - 1)
        return total

    start = PlainAbalone(games.new_state(Abalone(layout=layout)))
    assert [sequences(start, depth) for depth in (1, 2)] == counts
