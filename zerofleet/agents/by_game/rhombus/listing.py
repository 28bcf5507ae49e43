"""Move lists, packed so that the largest entry is searched first.

    bits 17 ..     rank: refutation move, history, gain; see `rank`
    bits 4 .. 16   8191 - action, so that ties go to the lower action with every generator
    bits 0 .. 3    piece

Actions are those of the game: 81 * from + to, from the mover's view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.chinese_checkers.rhombus.board import BOARD, CELLS, STEPS
from games.compiled import lean
from games.kit.bits import lowest_bit
from zerofleet.agents.by_game.rhombus.cells import AHEAD
from zerofleet.agents.by_game.rhombus.generation import even_hops, fill, odd_hops, reach
from zerofleet.agents.by_game.rhombus.work import FULL, Work, cell_of, wide

__all__ = ["action_of", "best_first", "gain_of", "list_moves", "rank", "slot_of", "target_words"]

_ONE = np.uint64(1)
_LAST_ACTION = CELLS * CELLS - 1
_ACTION_BITS = 8191
_ACTION, _RANK = 4, 17
_LEAST_GAIN, _GAIN_BITS = 2048, 12
_MOST_HISTORY = (1 << 30) - 1
_REFUTES = 1 << 43


@lean
def action_of(packed: int) -> int:
    """Return the action of a packed move."""
    return _ACTION_BITS - ((packed >> _ACTION) & _ACTION_BITS)


@lean
def gain_of(packed: int) -> int:
    """Return the gain in cell values of a listed move."""
    return (packed >> _RANK) - _LEAST_GAIN


@lean
def slot_of(packed: int) -> int:
    """Return the piece of a packed move."""
    return packed & 15


@lean
def list_moves(work: Work, ply: int, side: int) -> int:
    """Write the moves to `moves[ply]`, with their gains as ranks, and return their number.

    If the settings exclude backward moves and there are no others, all moves are listed.
    """
    fill(work, ply, side)
    frame, moves = work.frames[ply], work.settings[0].moves
    count = wide(0)
    for slot in range(frame.cells.shape[1]):
        count = _append(work, ply, (side, slot), target_words(work, ply, side, slot), count)
    if count == 0 and moves != FULL:
        state = work.stack[ply]
        taken = (state[1] | state[3], state[2] | state[4])
        even, odd, ways = even_hops(taken), odd_hops(taken), (wide(1), wide(1))
        for slot in range(frame.cells.shape[1]):
            cell = frame.cells[side, slot]
            reached = reach(cell, taken, even, odd, ways)
            targets = _with_steps(cell, reached, taken)
            count = _append(work, ply, (side, slot), targets, count)
    return count


@lean
def target_words(work: Work, ply: int, side: int, slot: int) -> tuple[np.uint64, np.uint64]:
    """Return the targets of a piece, by word; requires `fill`."""
    frame, state = work.frames[ply], work.stack[ply]
    cell = frame.cells[side, slot]
    even, odd = _with_steps(cell, frame.jumps[side, slot], (state[1] | state[3], state[2] | state[4]))
    if work.settings[0].moves != FULL:
        even &= AHEAD[side, cell, 0]
        odd &= AHEAD[side, cell, 1]
    return even, odd


@lean
def _with_steps(cell: int, reached: np.uint64, taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64]:
    """Return the cells that a piece reaches by hops and by steps, by word."""
    even, odd = STEPS[cell, 0] & BOARD[0] & ~taken[0], STEPS[cell, 1] & BOARD[1] & ~taken[1]
    return (even, odd | reached) if cell & 1 else (even | reached, odd)


@lean
def _append(work: Work, ply: int, piece: tuple[int, int], targets: tuple[np.uint64, np.uint64], count: int) -> int:
    """Append the moves of a piece (player, slot) to `moves[ply]` and return the new length."""
    side, slot = piece
    moves, worth = work.moves, work.worth
    start = work.frames[ply].cells[side, slot]
    for parity in range(2):
        word = targets[1] if parity else targets[0]
        while word:
            target = cell_of(lowest_bit(word), parity)
            word &= word - _ONE
            action = CELLS * start + target
            if side == 1:
                action = _LAST_ACTION - action
            gain = worth[side, target] - worth[side, start] + _LEAST_GAIN
            moves[ply, count] = (gain << _RANK) | ((_ACTION_BITS - action) << _ACTION) | slot
            count += 1
    return count


@lean
def rank(work: Work, ply: int, side: int, count: int, refutation: int) -> int:
    """Rank the listed moves and return the number to search.

    The refutation move comes first, then moves by history, then by gain. With `top` only that many moves of the largest gain
    are kept.
    """
    settings, moves = work.settings[0], work.moves[ply]
    if settings.top and count > settings.top:
        for i in range(settings.top):
            best_first(moves, i, count)
        count = settings.top
    for i in range(count):
        action = action_of(moves[i])
        key = moves[i] >> _RANK if settings.sorted else 0
        if settings.history:
            key |= min(work.history[side, action], _MOST_HISTORY) << _GAIN_BITS
        if action == refutation:
            key = _REFUTES
        moves[i] = (key << _RANK) | (moves[i] & ((1 << _RANK) - 1))
    return count


@lean
def best_first(moves: Any, first: int, count: int) -> None:
    """Swap the largest of the entries `first` .. `count` - 1 to index `first`."""
    best = first
    for i in range(first + 1, count):
        if moves[i] > moves[best]:
            best = i
    moves[first], moves[best] = moves[best], moves[first]
