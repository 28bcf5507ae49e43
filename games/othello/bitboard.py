"""Othello on 64-bit words: generation of legal cells and of flipped discs.

Bit 8 * y + x is cell x of row y, counted from the top left of an 8 x 8 grid. Smaller boards are centred in it, so the same
shifts serve all sizes:

     0  1  2  3  4  5  6  7       6 x 6:   .  .  .  .  .  .  .  .
     8  9 10 11 12 13 14 15                .  9 10 11 12 13 14  .
    ..                   ..                . ..             ..  .
    56 57 58 59 60 61 62 63                .  .  .  .  .  .  .  .

Lines are flood-filled in all directions at once. A fill passes over the other player's discs and must not wrap around the
rim of the grid; excluding the first and last columns, where no disc can be flanked horizontally or diagonally, prevents it.
"""

from __future__ import annotations

import numpy as np

from games.compiled import compiled

__all__ = ["moves", "turned"]

_INNER_COLUMNS = np.uint64(0x7E7E7E7E7E7E7E7E)
_RIGHT, _DOWN, _DOWN_LEFT, _DOWN_RIGHT = np.uint64(1), np.uint64(8), np.uint64(7), np.uint64(9)
_ONE, _TWO, _FOUR = np.uint64(1), np.uint64(2), np.uint64(4)


@compiled
def moves(mine: np.uint64, other: np.uint64, board: np.uint64) -> np.uint64:
    """Return the empty cells of `board` on which a disc of mine would flank discs of the other player."""
    inner = other & _INNER_COLUMNS
    found = _seen(mine, inner, _RIGHT) | _seen(mine, other, _DOWN)
    found |= _seen(mine, inner, _DOWN_LEFT) | _seen(mine, inner, _DOWN_RIGHT)
    return found & board & ~(mine | other)


@compiled
def _runs(start: np.uint64, other: np.uint64, step: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the unbroken runs of `other`, six discs at most, that begin next to `start`, `step` bits up and down."""
    twice = step + step
    up = other & (start << step)
    down = other & (start >> step)
    up |= other & (up << step)
    down |= other & (down >> step)
    up_pairs = other & (other << step)
    down_pairs = other & (other >> step)
    up |= up_pairs & (up << twice)
    down |= down_pairs & (down >> twice)
    up |= up_pairs & (up << twice)
    down |= down_pairs & (down >> twice)
    return up, down


@compiled
def _seen(mine: np.uint64, other: np.uint64, step: np.uint64) -> np.uint64:
    """Return the cells behind unbroken runs of `other` that begin next to `mine`, `step` bits up and down."""
    up, down = _runs(mine, other, step)
    return (up << step) | (down >> step)


@compiled
def turned(mine: np.uint64, other: np.uint64, cell: np.uint64) -> np.uint64:
    """Return the discs of the other player that a disc of mine on `cell` (one bit) flips."""
    inner = other & _INNER_COLUMNS
    found = _flanked(mine, inner, cell, _RIGHT) | _flanked(mine, other, cell, _DOWN)
    return found | _flanked(mine, inner, cell, _DOWN_LEFT) | _flanked(mine, inner, cell, _DOWN_RIGHT)


@compiled
def _flanked(mine: np.uint64, other: np.uint64, cell: np.uint64, step: np.uint64) -> np.uint64:
    """Return the runs of `other` between `cell` and `mine`, `step` bits up and down."""
    up, down = _runs(cell, other, step)
    found = np.uint64(0)
    if (up << step) & mine:
        found |= up
    if (down >> step) & mine:
        found |= down
    return found
