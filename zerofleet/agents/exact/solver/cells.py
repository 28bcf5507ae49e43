"""Sets of cells of a Connect Four board in one 64-bit word, numbered as in `games.connect_four.bitboard`.

Every column takes rows + 1 bits from the bottom up and its highest bit is never a stone, so that shifted sets do not run
over into the next column. A `Board` holds what follows from the size of the board.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import lean

__all__ = ["Board", "mirrored", "open_wins", "playable"]

_ONE = np.uint64(1)


class Board(NamedTuple):
    """A size of board, made by `zerofleet.agents.exact.solver.connect_four.board_of`."""

    rows: int
    columns: int
    connect: int
    cells: np.uint64  # every cell of the board
    bottoms: np.uint64  # the lowest cell of each column


@lean
def playable(board: Board, taken: np.uint64) -> np.uint64:
    """Return the cells to which a stone can fall: the carry stops at the lowest empty cell of each column."""
    return (taken + board.bottoms) & board.cells


@lean
def open_wins(board: Board, stones: np.uint64, taken: np.uint64) -> np.uint64:
    """Return the empty cells that would complete a line of `stones`, whether a stone can fall there yet or not."""
    found = np.uint64(0)
    if board.connect == 4:
        for step in range(board.rows, board.rows + 3):
            found |= _fourth_cells(stones, np.uint64(step))
        found |= (stones << _ONE) & (stones << np.uint64(2)) & (stones << np.uint64(3))  # a column fills from below
    else:
        found = _last_cells(board, stones)
    return found & board.cells & ~taken


@lean
def _fourth_cells(stones: np.uint64, step: np.uint64) -> np.uint64:
    """Return the cells that have three stones of a line of four beside them, `step` bits apart."""
    pair = (stones << step) & (stones << (step + step))  # to the right of two
    found = pair & (stones << (step + step + step))
    found |= pair & (stones >> step)
    pair = (stones >> step) & (stones >> (step + step))
    return found | (pair & (stones << step)) | (pair & (stones >> (step + step + step)))


@lean
def _last_cells(board: Board, stones: np.uint64) -> np.uint64:
    """Return the cells that lack to a line of any length: all other cells of the line, before and behind, have stones."""
    found = np.uint64(0)
    for direction in range(4):
        step = 1 if direction == 0 else board.rows - 1 + direction
        for behind in range(board.connect):
            line = board.cells
            for place in range(board.connect):
                if place < behind:
                    line &= stones << np.uint64(step * (behind - place))
                elif place > behind:
                    line &= stones >> np.uint64(step * (place - behind))
            found |= line
    return found


@lean
def mirrored(board: Board, cells: np.uint64) -> np.uint64:
    """Return a set of cells seen in a mirror: the first column becomes the last."""
    height = np.uint64(board.rows + 1)
    column = (_ONE << height) - _ONE
    found = np.uint64(0)
    for _ in range(board.columns):
        found = (found << height) | (cells & column)
        cells >>= height
    return found
