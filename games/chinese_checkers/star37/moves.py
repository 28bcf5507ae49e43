"""Move generation on the star of 37 fields: hops, and chains of jumps by flood fill over free fields.

Everything is in the mover's view; `games.chinese_checkers.star37.board` defines the numbering of fields and spots.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.star37.board import (
    END_FIELDS,
    END_SPOTS,
    FIELD_SPOTS,
    GRID_ACTIONS,
    GRID_FIELDS,
    GRID_SIZES,
    GRID_SPOTS,
    HOP_SPOTS,
    NEAR,
    ONTO,
    OVER,
    PLACES,
)
from games.compiled import compiled
from games.kit.bits import lowest_bit

__all__ = ["list_moves", "seen_by"]

_ONE = np.uint64(1)
_RIM, _CENTRE = np.uint64((1 << 36) - 1), np.uint64(1 << 36)
_END_ZONE = END_SPOTS[0]


@compiled
def seen_by(spots: np.uint64, player: int) -> np.uint64:
    """Return a word of spots in a player's view; bits above the low 37 are dropped."""
    rim = spots & _RIM
    if player > 0:
        turn = np.uint64(12 * player)
        rim = ((rim >> turn) | (rim << (np.uint64(36) - turn))) & _RIM
    return rim | (spots & _CENTRE)


@compiled
def _jumps(start: np.uint64, occupied: np.uint64, passable: np.uint64) -> np.uint64:
    """Return the free spots that a piece on `start` (one bit) reaches by jumps.

    No chain can jump over its starting spot: jumped fields are in another grid than landing fields. Returning to that spot on
    the way reaches nothing new.
    """
    if not NEAR[lowest_bit(start)] & occupied:
        return np.uint64(0)
    free = passable & ~occupied
    front = start
    reached = np.uint64(0)
    while front:
        low = front & (~front + _ONE)
        front ^= low
        spot = lowest_bit(low)
        for direction in range(6):
            onto = ONTO[spot, direction] & free
            if onto and OVER[spot, direction] & occupied:
                reached |= onto
                free ^= onto
                front |= onto
    return reached


@compiled
def list_moves(own: np.uint64, occupied: np.uint64, locks: bool, passable: np.uint64, out: np.ndarray) -> int:
    """Write the mover's legal moves except the pass into `out`, ascending, and return their number.

    Args:
        own: Fields of the mover's pieces.
        occupied: Spots of all pieces.
        locks: Whether a piece in the end zone must stay in it.
        passable: Spots on which a chain of jumps may land before its end.
        out: int16 [L].
    """
    count = _list_hops(own, ~occupied, locks, out)
    for grid in range(4):
        left = own & GRID_FIELDS[grid]
        before = GRID_ACTIONS[grid]
        while left:
            piece = left & (~left + _ONE)
            left ^= piece
            field = lowest_bit(piece)
            ends = _jumps(FIELD_SPOTS[0, field], occupied, passable)
            if locks and piece & END_FIELDS:
                ends &= _END_ZONE
            if not ends:
                continue
            size = GRID_SIZES[grid]
            first = before + size * PLACES[field]
            for i in range(size):
                if ends & GRID_SPOTS[grid, i]:
                    out[count] = first + i
                    count += 1
    return count


@compiled
def _list_hops(own: np.uint64, free: np.uint64, locks: bool, out: np.ndarray) -> int:
    """Write the hops to free neighbouring fields."""
    lock = 1 if locks else 0
    count = 0
    left = own
    while left:
        piece = left & (~left + _ONE)
        left ^= piece
        field = lowest_bit(piece)
        for direction in range(6):
            if HOP_SPOTS[lock, field, direction] & free:
                out[count] = 6 * field + direction
                count += 1
    return count
