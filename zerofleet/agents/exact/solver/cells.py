"""Bitboards: sets of cells of a Connect Four board in one 64-bit word, numbered as in `games.connect_four.bitboard`.

Every column takes rows + 1 bits from the bottom up and its highest bit is never a stone, so that shifts do not carry into
the next column. A `Board` holds the constants of a board size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import lean

__all__ = ["Board", "mirrored", "open_wins", "playable"]

_ONE = np.uint64(1)
_WORD = 64
"""Bits of a word. A line whose ends are as far apart does not fit on a board, and a shift so far has no defined result."""


class Board(NamedTuple):
    """Board size and its masks, created by `zerofleet.agents.exact.solver.connect_four.board_of`."""

    rows: int
    columns: int
    connect: int
    cells: np.uint64  # every cell of the board
    bottoms: np.uint64  # the lowest cell of each column


@lean
def playable(board: Board, taken: np.uint64) -> np.uint64:
    """Return the lowest empty cell of each column, where the carry of the addition stops."""
    return (taken + board.bottoms) & board.cells


@lean
def open_wins(board: Board, stones: np.uint64, taken: np.uint64) -> np.uint64:
    """Return the empty cells that would complete a line of `stones`, playable or not."""
    found = np.uint64(0)
    if board.connect == 4:
        for step in range(board.rows, board.rows + 3):
            if 3 * step < _WORD:
                found |= _fourth_cells(stones, np.uint64(step))
        found |= (stones << _ONE) & (stones << np.uint64(2)) & (stones << np.uint64(3))  # vertical: a column fills from below
    else:
        found = _last_cells(board, stones)
    return found & board.cells & ~taken


@lean
def _fourth_cells(stones: np.uint64, step: np.uint64) -> np.uint64:
    """Return the cells that complete a line of four with three stones, `step` bits apart."""
    pair = (stones << step) & (stones << (step + step))  # to the right of two
    found = pair & (stones << (step + step + step))
    found |= pair & (stones >> step)
    pair = (stones >> step) & (stones >> (step + step))
    return found | (pair & (stones << step)) | (pair & (stones >> (step + step + step)))


@lean
def _last_cells(board: Board, stones: np.uint64) -> np.uint64:
    """Return the cells that complete a line of length `connect`: all other cells of the line have stones."""
    found = np.uint64(0)
    for direction in range(4):
        step = 1 if direction == 0 else board.rows - 1 + direction
        if step * (board.connect - 1) >= _WORD:
            continue
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
    """Return a set of cells mirrored horizontally: the first column becomes the last."""
    height = np.uint64(board.rows + 1)
    column = (_ONE << height) - _ONE
    found = np.uint64(0)
    for _ in range(board.columns):
        found = (found << height) | (cells & column)
        cells >>= height
    return found
