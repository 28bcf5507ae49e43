"""Channels: the cells a piece can reach by hops, updated incrementally from position to position.

A channel depends on the cells read by its flood: for the piece's cell and each cell reached, the adjacent cells, over which
hops lead, and those behind them, where hops end. A move between two cells therefore invalidates a channel only if the channel
contains a cell from which a hop leads onto or over one of the two (`cells.WATCHED`). Two cases need no test:

- The opponent moves entirely behind the rearmost piece, and hops never lead backwards (MONO): every channel stays valid. This
  fails with backward hops, or if the move touches the level of the rearmost piece.
- The piece itself has hopped, and hops lead both ways (NET, FULL): its channel gains the cell it left and loses the cell it
  reached. Hops of its zone have their middles in other zones, where nothing changed.

A step changes the zone of a piece, so its channel is invalidated, as is that of a piece that hopped with MONO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import lean
from zerofleet.agents.by_game.rhombus.cells import LEVELS, WATCHED
from zerofleet.agents.by_game.rhombus.work import MONO

__all__ = ["inherit_channels"]

_ONE = np.uint64(1)


@lean
def inherit_channels(parent: Any, child: Any, side: int, slot: int, moves: int) -> None:
    """Copy the channels of the parent frame that the move to the child left valid.

    Args:
        parent: Frame before the move.
        child: Frame after the move, with its cells set.
        side: Player who moved.
        slot: Piece that moved.
        moves: FULL, NET or MONO.
    """
    start, target = parent.cells[side, slot], child.cells[side, slot]
    even, odd = WATCHED[start, 0] | WATCHED[target, 0], WATCHED[start, 1] | WATCHED[target, 1]
    for owner in range(2):
        known = parent.known[owner]
        if not (owner != side and moves == MONO and _is_behind(parent.cells, owner, start, target)):
            for other in range(parent.cells.shape[1]):
                cell = parent.cells[owner, other]
                seen = parent.jumps[owner, other] | (_ONE << np.uint64(cell >> 1))
                if seen & (odd if cell & 1 else even):
                    known &= ~(1 << other)
        for other in range(parent.cells.shape[1]):
            child.jumps[owner, other] = parent.jumps[owner, other]
        child.known[owner] = known
    child.known[side] &= ~(1 << slot)
    if moves != MONO and (parent.known[side] >> slot) & 1 and _is_hop(start, target):
        was = parent.jumps[side, slot] | (_ONE << np.uint64(start >> 1))
        child.jumps[side, slot] = was & ~(_ONE << np.uint64(target >> 1))
        child.known[side] |= 1 << slot


@lean
def _is_behind(cells: np.ndarray, side: int, start: int, target: int) -> bool:
    """Return whether both cells are behind all pieces of a side."""
    sign = 1 - 2 * side
    nearest = max(LEVELS[start] * sign, LEVELS[target] * sign)
    rearmost = LEVELS[cells[side, 0]] * sign
    for slot in range(1, cells.shape[1]):
        rearmost = min(rearmost, LEVELS[cells[side, slot]] * sign)
    return bool(rearmost > nearest)


@lean
def _is_hop(start: int, target: int) -> bool:
    """Return whether a move stays in its zone."""
    return (start // 9 - target // 9) % 2 == 0 and (start - target) % 2 == 0
