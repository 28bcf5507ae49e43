"""Lists of moves, packed so that the largest is the one to try first.

    bits 17 ..     how promising: refutation move, history, gain; see `rank`
    bits 4 .. 16   8191 - action, so that the lower action goes first among equals, whoever generated them
    bits 0 .. 3    the piece

Actions are the game's: 81 * from + to as the mover sees the board.
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
    """Return the game's action of a packed move."""
    return _ACTION_BITS - ((packed >> _ACTION) & _ACTION_BITS)


@lean
def gain_of(packed: int) -> int:
    """Return what a move as listed gains by the values of the cells."""
    return (packed >> _RANK) - _LEAST_GAIN


@lean
def slot_of(packed: int) -> int:
    """Return the piece that a packed move moves."""
    return packed & 15


@lean
def list_moves(work: Work, ply: int, side: int) -> int:
    """Write the moves to be searched to `moves[ply]`, each with its gain as rank, and return how many.

    Where every move would go backwards and the settings leave such out, all moves are listed.
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
    """Return where a piece may go, by word, once `fill` has found where its hops lead."""
    frame, state = work.frames[ply], work.stack[ply]
    cell = frame.cells[side, slot]
    even, odd = _with_steps(cell, frame.jumps[side, slot], (state[1] | state[3], state[2] | state[4]))
    if work.settings[0].moves != FULL:
        even &= AHEAD[side, cell, 0]
        odd &= AHEAD[side, cell, 1]
    return even, odd


@lean
def _with_steps(cell: int, reached: np.uint64, taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64]:
    """Return the cells a piece reaches by hops and by steps, by word."""
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
    """Rank the moves listed and return how many of them are searched.

    First comes the refutation move, then what history speaks for, then what gains most. With `top` only so many moves that
    gain most are kept.
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
    """Bring the largest of the entries `first` .. `count` - 1 to the place `first`."""
    best = first
    for i in range(first + 1, count):
        if moves[i] > moves[best]:
            best = i
    moves[first], moves[best] = moves[best], moves[first]
