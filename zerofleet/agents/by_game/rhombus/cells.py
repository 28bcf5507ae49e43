"""Board tables for cell-by-cell generators: targets and middles of hops, levels, and cells ahead.

Cells are numbered 9 * row + column from player 0's view and stored in two words, even and odd numbers
(`games.chinese_checkers.rhombus.board`). Directions 0 and 1 climb for player 0, 2 and 3 stay on the level, 4 and 5 descend;
direction 5 - d is the opposite of direction d.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.rhombus.board import CELLS, SIDE, level, touching, words_of

__all__ = ["AHEAD", "BY_LEVEL", "DIRECTIONS", "HOP_OVER", "HOP_TO", "LEVELS", "WATCHED"]

DIRECTIONS = ((1, 0), (0, 1), (1, -1), (-1, 1), (0, -1), (-1, 0))


def _neighbour(cell: int, direction: tuple[int, int], distance: int) -> int:
    """Return the cell at a distance in a direction, or -1 off the board."""
    row, column = cell // SIDE + distance * direction[0], cell % SIDE + distance * direction[1]
    return SIDE * row + column if 0 <= row < SIDE and 0 <= column < SIDE else -1


def _hops(cell: int) -> list[int]:
    return [_neighbour(cell, direction, 2) for direction in DIRECTIONS]


HOP_TO = np.array([_hops(cell) for cell in range(CELLS)], dtype=np.int64)
"""int64 [81, 6]: target of a hop in each direction, -1 off the board."""
HOP_OVER = np.array([[_neighbour(cell, direction, 1) for direction in DIRECTIONS] for cell in range(CELLS)], dtype=np.int64)
"""int64 [81, 6]: middle cell of a hop in each direction."""
LEVELS = np.array([level(cell) for cell in range(CELLS)], dtype=np.int64)
"""int64 [81]: distance of each cell from the corner of player 0."""
BY_LEVEL = np.array([words_of(np.flatnonzero(there == LEVELS).tolist()) for there in range(2 * SIDE - 1)], dtype=np.uint64)
"""uint64 [17, 2]: by level and word, cells on that level."""
AHEAD = np.array(
    [
        [words_of(there for there in range(CELLS) if sign * (level(there) - level(cell)) >= 0) for cell in range(CELLS)]
        for sign in (1, -1)
    ],
    dtype=np.uint64,
)
"""uint64 [2, 81, 2]: by player, cell and word, cells that are not behind it."""
WATCHED = np.array(
    [words_of([*touching(cell), *(there for there in _hops(cell) if there >= 0)]) for cell in range(CELLS)], dtype=np.uint64
)
"""uint64 [81, 2]: by cell and word, cells from which a hop leads onto or over that cell."""
