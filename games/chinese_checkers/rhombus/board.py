"""Rhombus of 81 cells: bitboard layout, homes, levels and adjacency.

Row r and column c count from 0; cell number 9 * r + c. Six cells touch (r, c): its neighbours in the same row or column,
(r + 1, c - 1) and (r - 1, c + 1). The level r + c is the distance of a cell from the corner where player 0 starts:

    level 16                . (8, 8)            home of player 1: levels 13 to 16
                           . .
                          . . .
                ...
    level 1                . .  (1, 0) (0, 1)
    level 0                 .   (0, 0)          home of player 0: levels 0 to 3

Even- and odd-numbered cells have one word each; bit k of word p is cell 2 * k + p. A hop moves a piece by two rows, two
columns or two of each, so it stays in its word (and in its zone: the parities of row and column are preserved). The layout
makes a hop the same bit shift everywhere:

    word 0    0  1  2  3  4  |  5  6  7  8  |  9 10 11 12 13  | 14 ..       rows 0, 1, 2, 3, ..
    word 1    0  1  2  3  |  4  5  6  7  8  |  9 10 11 12  | 13 ..          alternating even and odd columns

The rotation by 180 degrees maps cell i to 80 - i.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from games.compiled import compiled
from games.kit.bits import lowest_bit

__all__ = [
    "BOARD",
    "CELLS",
    "HOMES",
    "HOPS",
    "LEVELS_TO_GO",
    "PIECES",
    "SIDE",
    "STEPS",
    "level",
    "levels_to_go",
    "touching",
    "words_of",
]

SIDE = 9
CELLS = SIDE * SIDE
PIECES = 10
LEVELS_TO_GO = 120
"""Levels that the pieces of a side climb in total from the start to the goal."""

_HOME_LEVELS = 4
_TOP_LEVEL = 2 * SIDE - 2
_LEVELS_OF_FULL_GOAL = 4 * 13 + 3 * 14 + 2 * 15 + 16
_DIRECTIONS = ((1, 0), (0, 1), (1, -1), (-1, 0), (0, -1), (-1, 1))
_ONE = np.uint64(1)


def level(cell: int) -> int:
    """Return the level of a cell, 0 .. 16."""
    return cell // SIDE + cell % SIDE


def touching(cell: int) -> list[int]:
    """Return the cells that touch a cell, three to six of them."""
    row, column = divmod(cell, SIDE)
    places = [(row + down, column + right) for down, right in _DIRECTIONS]
    return [SIDE * r + c for r, c in places if 0 <= r < SIDE and 0 <= c < SIDE]


def words_of(cells: Iterable[int]) -> tuple[int, int]:
    """Return two words with the bits of these cells set."""
    words = [0, 0]
    for cell in cells:
        words[cell & 1] |= 1 << (cell >> 1)
    return words[0], words[1]


def _hop_starts(down: int, right: int) -> tuple[int, int]:
    """Return the cells from which a hop in this direction ends on the board."""
    inside = range(SIDE)
    return words_of(SIDE * r + c for r in inside for c in inside if r + 2 * down in inside and c + 2 * right in inside)


BOARD = np.array(words_of(range(CELLS)), dtype=np.uint64)
"""All cells, by word."""
HOMES = np.array(
    [
        words_of(cell for cell in range(CELLS) if level(cell) < _HOME_LEVELS),
        words_of(cell for cell in range(CELLS) if level(cell) > _TOP_LEVEL - _HOME_LEVELS),
    ],
    dtype=np.uint64,
)
"""uint64 [2, 2]: starting cells of each player, by word. A player's goal is the home of the other."""
STEPS = np.array([words_of(touching(cell)) for cell in range(CELLS)], dtype=np.uint64)
"""uint64 [81, 2]: cells that touch each cell, by word."""
HOPS = np.array([_hop_starts(down, right) for down, right in _DIRECTIONS[:3]], dtype=np.uint64)
"""uint64 [3, 2]: cells from which a hop by two rows, by two columns, or two rows up and two columns down can start, by word."""


@compiled
def levels_to_go(player: int, even: np.uint64, odd: np.uint64) -> int:
    """Return the levels that a player's ten pieces (two words) still have to climb to fill the goal."""
    climbed = 0
    for parity in range(2):
        word = even if parity == 0 else odd
        while word:
            cell = 2 * lowest_bit(word) + parity
            climbed += cell // SIDE + cell % SIDE
            word &= word - _ONE
    if player == 1:
        climbed = PIECES * _TOP_LEVEL - climbed
    return _LEVELS_OF_FULL_GOAL - climbed
