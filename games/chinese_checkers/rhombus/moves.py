"""Move generation on the rhombus: cells that a piece reaches by a step or a chain of hops.

A hop needs an occupied cell in the middle. Shifts of the other word or of the same one yield these for all cells of a word at
once, along each of the three axes:

    axis          hop, cells   hop, bits   middle, from word 0      middle, from word 1
    next row          18           9       word 1, 4 bits higher    word 0, 5 bits higher
    next column        2           1       word 1, same bit         word 0, 1 bit higher
    row up, left      16           8       word 0, 4 bits higher    word 1, 4 bits higher

Chains are a flood fill from the piece over empty cells. The piece may stay on the board meanwhile: it is in its own zone and
can only be hopped over from another one. Long hops, over a distant piece to the cell equally far behind it, can pass over the
own zone, so the piece is removed first.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.rhombus.board import BOARD, CELLS, HOPS, SIDE, STEPS
from games.compiled import compiled
from games.kit.bits import lowest_bit

__all__ = ["can_move", "list_moves"]

_ONE = np.uint64(1)
_ROW, _COLUMN, _SLANT = np.uint64(9), np.uint64(1), np.uint64(8)
_FOUR, _FIVE = np.uint64(4), np.uint64(5)
_DOWN = np.array([1, 0, 1, -1, 0, -1], dtype=np.int64)
_RIGHT = np.array([0, 1, -1, 0, -1, 1], dtype=np.int64)


@compiled
def list_moves(even: np.uint64, odd: np.uint64, taken: tuple[np.uint64, np.uint64], long_hops: bool, out: np.ndarray) -> int:
    """Write the moves 81 * from + to of the pieces `even` and `odd` into `out`, ascending, and return their number.

    Args:
        even, odd: The mover's pieces, by word.
        taken: All pieces, by word.
        long_hops: Whether a hop may pass over a distant piece.
        out: int16 [L].
    """
    free = (BOARD[0] & ~taken[0], BOARD[1] & ~taken[1])
    even_hops = _even_hops(taken)
    odd_hops = _odd_hops(taken)
    count = 0
    while even | odd:
        even_cell, odd_cell = 2 * lowest_bit(even), 2 * lowest_bit(odd) + 1
        if even_cell < odd_cell:
            even &= even - _ONE
            start, even_targets, odd_targets = even_cell, STEPS[even_cell, 0] & free[0], STEPS[even_cell, 1] & free[1]
            if long_hops:
                even_targets |= _far_reach(even_cell, taken)
            else:
                even_targets |= _reach(_ONE << np.uint64(even_cell >> 1), free[0], even_hops)
        else:
            odd &= odd - _ONE
            start, even_targets, odd_targets = odd_cell, STEPS[odd_cell, 0] & free[0], STEPS[odd_cell, 1] & free[1]
            if long_hops:
                odd_targets |= _far_reach(odd_cell, taken)
            else:
                odd_targets |= _reach(_ONE << np.uint64(odd_cell >> 1), free[1], odd_hops)
        count = _list_targets(CELLS * start, even_targets, odd_targets, out, count)
    return count


@compiled
def _list_targets(base: int, even: np.uint64, odd: np.uint64, out: np.ndarray, count: int) -> int:
    """Append base + cell for each cell of two words, in cell order; return the new length."""
    while even | odd:
        even_cell, odd_cell = 2 * lowest_bit(even), 2 * lowest_bit(odd) + 1
        is_even = even_cell < odd_cell
        even = even & (even - _ONE) if is_even else even
        odd = odd if is_even else odd & (odd - _ONE)
        out[count] = base + (even_cell if is_even else odd_cell)
        count += 1
    return count


@compiled
def _even_hops(taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the starts of hops over occupied cells in word 0, upwards along the three axes; downward hops are the reverse."""
    return HOPS[0, 0] & (taken[1] >> _FOUR), HOPS[1, 0] & taken[1], HOPS[2, 0] & (taken[0] >> _FOUR)


@compiled
def _odd_hops(taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the same as `_even_hops`, for word 1."""
    return HOPS[0, 1] & (taken[0] >> _FIVE), HOPS[1, 1] & (taken[0] >> _ONE), HOPS[2, 1] & (taken[1] >> _FOUR)


@compiled
def _reach(piece: np.uint64, free: np.uint64, hops: tuple[np.uint64, np.uint64, np.uint64]) -> np.uint64:
    """Return the free cells reached by chains of hops from a piece (one bit), all within its word."""
    row, column, slant = hops
    reached = np.uint64(0)
    fresh = piece
    while fresh:
        landing = ((fresh & row) << _ROW) | ((fresh >> _ROW) & row)
        landing |= ((fresh & column) << _COLUMN) | ((fresh >> _COLUMN) & column)
        landing |= ((fresh & slant) << _SLANT) | ((fresh >> _SLANT) & slant)
        fresh = landing & free & ~reached
        reached |= fresh
    return reached


@compiled
def _far_reach(start: int, taken: tuple[np.uint64, np.uint64]) -> np.uint64:
    """Return the same as `_reach` from the cell `start`, for hops of any length over one piece half-way."""
    parity = start & 1
    own = _ONE << np.uint64(start >> 1)
    even = taken[0] & ~own if parity == 0 else taken[0]
    odd = taken[1] & ~own if parity == 1 else taken[1]
    reached, fresh = own, own
    while fresh:
        cell = 2 * lowest_bit(fresh) + parity
        fresh &= fresh - _ONE
        for direction in range(6):
            landing = _far_landing(cell, direction, even, odd)
            if landing >= 0:
                bit = _ONE << np.uint64(landing >> 1)
                fresh |= bit & ~reached
                reached |= bit
    return reached & ~own


@compiled
def _far_landing(cell: int, direction: int, even: np.uint64, odd: np.uint64) -> int:
    """Return the target of a hop from `cell` over the first piece in a direction, or -1 if it is blocked."""
    row, column = cell // SIDE, cell % SIDE
    distance = 1
    while _state_of(row, column, direction, distance, even, odd) == 0:
        distance += 1
    if _state_of(row, column, direction, distance, even, odd) < 0:
        return -1
    for beyond in range(distance + 1, 2 * distance + 1):
        if _state_of(row, column, direction, beyond, even, odd) != 0:
            return -1
    return cell + 2 * distance * (SIDE * _DOWN[direction] + _RIGHT[direction])  # type: ignore[no-any-return]


@compiled
def _state_of(row: int, column: int, direction: int, distance: int, even: np.uint64, odd: np.uint64) -> int:
    """Return 1 if the cell at a distance from (row, column) is occupied, 0 if it is free, -1 if it is off the board."""
    there_row, there_column = row + distance * _DOWN[direction], column + distance * _RIGHT[direction]
    if not (0 <= there_row < SIDE and 0 <= there_column < SIDE):
        return -1
    cell = SIDE * there_row + there_column
    word = odd if cell & 1 else even
    return int(np.int64((word >> np.uint64(cell >> 1)) & _ONE))


@compiled
def can_move(even: np.uint64, odd: np.uint64, taken: tuple[np.uint64, np.uint64]) -> bool:
    """Return whether any of the pieces `even` and `odd` can move.

    Long hops need no separate test: a piece that cannot step has all neighbours occupied, so its hops are short.
    """
    free_even, free_odd = BOARD[0] & ~taken[0], BOARD[1] & ~taken[1]
    left = even
    while left:
        cell = 2 * lowest_bit(left)
        if (STEPS[cell, 0] & free_even) | (STEPS[cell, 1] & free_odd):
            return True
        left &= left - _ONE
    left = odd
    while left:
        cell = 2 * lowest_bit(left) + 1
        if (STEPS[cell, 0] & free_even) | (STEPS[cell, 1] & free_odd):
            return True
        left &= left - _ONE
    return (_reach(even, free_even, _even_hops(taken)) | _reach(odd, free_odd, _odd_hops(taken))) != 0  # type: ignore[no-any-return]
