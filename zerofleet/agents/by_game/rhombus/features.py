"""Five features of a side, and the linear evaluation over them.

    distance   levels between the pieces and the far corner
    advance    maximal number of levels climbed by a single move
    sideways   mean squared distance of the pieces from the nearer of the two lines next to the middle (row - column = -1, 1)
    spread     variance of the pieces' levels
    reach      number of cells reachable by hops

All are in hundredths, so that the evaluation is an integer.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.rhombus.board import BOARD, PIECES, SIDE, STEPS
from games.compiled import lean
from games.kit.bits import count_bits
from zerofleet.agents.by_game.rhombus.cells import BY_LEVEL, LEVELS
from zerofleet.agents.by_game.rhombus.generation import even_hops, odd_hops, reach
from zerofleet.agents.by_game.rhombus.work import Work, wide

__all__ = ["count_features", "linear_score"]

_HUNDRED = 100
_TOP_LEVEL = 2 * SIDE - 2
_NOWHERE = -_TOP_LEVEL


@lean
def linear_score(work: Work, ply: int) -> int:
    """Return the score of a frame's position for player 0."""
    cells, state, weights = work.frames[ply].cells, work.stack[ply], work.weights
    score = wide(0)
    for player in range(2):
        counted = count_features(cells, state, player)
        for i in range(5):
            score += weights[i] * counted[i] * (2 * player - 1)
    return score


@lean
def count_features(cells: np.ndarray, state: np.ndarray, side: int) -> tuple[int, int, int, int, int]:
    """Return the features of a player in hundredths.

    Args:
        cells: int64 [2, 10], cells of the pieces.
        state: The position.
        side: The player.
    """
    total, squares, sideways = 0, 0, 0
    for slot in range(cells.shape[1]):
        cell = cells[side, slot]
        level = LEVELS[cell]
        total += level
        squares += level * level
        aside = abs(cell // SIDE - cell % SIDE) - 1
        sideways += aside * aside
    advance, reached = _mobility(cells, state, side)
    distance = total if side == 1 else PIECES * _TOP_LEVEL - total
    spread = PIECES * squares - total * total  # 100 times the variance of ten levels
    return _HUNDRED * distance, _HUNDRED * advance, PIECES * sideways, spread, _HUNDRED * reached


@lean
def _mobility(cells: np.ndarray, state: np.ndarray, side: int) -> tuple[int, int]:
    """Return the maximal number of levels climbed by a move, and the number of cells reachable by hops."""
    taken = (state[1] | state[3], state[2] | state[4])
    even, odd = even_hops(taken), odd_hops(taken)
    ways = (wide(1), wide(1))
    farthest = wide(_NOWHERE)
    even_reached, odd_reached = np.uint64(0), np.uint64(0)
    for slot in range(cells.shape[1]):
        cell = cells[side, slot]
        reached = reach(cell, taken, even, odd, ways)
        targets = (STEPS[cell, 0] & BOARD[0] & ~taken[0], STEPS[cell, 1] & BOARD[1] & ~taken[1])
        if cell & 1:
            odd_reached |= reached
            targets = (targets[0], targets[1] | reached)
        else:
            even_reached |= reached
            targets = (targets[0] | reached, targets[1])
        farthest = max(farthest, _climb(targets, cell, side))
    return farthest, count_bits(even_reached) + count_bits(odd_reached)


@lean
def _climb(targets: tuple[np.uint64, np.uint64], cell: int, side: int) -> int:
    """Return the maximal number of levels that a piece climbs to one of these cells."""
    for i in range(_TOP_LEVEL + 1):
        level = _TOP_LEVEL - i if side == 0 else i
        if (targets[0] & BY_LEVEL[level, 0]) | (targets[1] & BY_LEVEL[level, 1]):
            return (level - LEVELS[cell]) * (1 - 2 * side)  # type: ignore[no-any-return]
    return _NOWHERE
