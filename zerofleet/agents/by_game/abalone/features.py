"""Static features of Abalone positions, on bitboards of 61 bits.

Each feature is computed for the player with the marbles `mine` against `other`; its value is the difference between both
players, for the player to move.

    neighbours          sum over my marbles of their neighbours that are mine: a pair counts twice
    centre_distance     sum over my marbles of the steps to the centre, 0 to 4
    marbles             number of my marbles, so that the difference is the lead in captures
    coherence           neighbours, plus one where the neighbour's neighbour on the same line is mine too
    formation_break     number of my marbles between two of theirs on one line
    immediate_danger    number of my marbles that they can push off the board with their next move
    single_danger       sum over my marbles on the rim of their neighbours that are theirs
    double_danger       the same over my marbles on the rim with another of mine next to them on the rim
    reference_distance  sum over my marbles of the distance from the reference point, in units of 1 / `REFERENCE_UNIT` step

The reference point is the weighted mean of the two centres of mass, weight 3 each, and of the board's centre, weight 1. All
are integers, so that values are compared exactly.

Sources: Papadopoulos, Toumpas, Chrysopoulos and Mitkas 2012, "Exploring optimization strategies in board game Abalone for
Alpha-Beta search"; Aichholzer, Aurenhammer and Werner 2002, "Algorithmic fun: Abalone" (the reference point).
"""

from __future__ import annotations

import numpy as np

from games.abalone import bitboard, board
from games.compiled import compiled, lean
from games.kit.bits import count_bits, lowest_bit

__all__ = [
    "FEATURES",
    "REFERENCE_UNIT",
    "centre_distance",
    "coherence",
    "double_danger",
    "endangered",
    "feature",
    "formation_break",
    "reference_distances",
    "single_danger",
]

FEATURES = (
    "neighbours",
    "centre_distance",
    "marbles",
    "coherence",
    "formation_break",
    "immediate_danger",
    "single_danger",
    "double_danger",
    "reference_distance",
)
"""Features in the order of their weights."""

_MASS, _MIDDLE = 3, 1
"""Weights of a centre of mass and of the board's centre in the reference point."""
_COUNTS = 360_360  # least common multiple of 1 to 14: means over up to 14 marbles are integral
REFERENCE_UNIT = (2 * _MASS + _MIDDLE) * _COUNTS
_AXES = (0, 1, 5)  # NE, E, NW
_ONE, _NONE = np.uint64(1), np.uint64(0)


def _rim() -> int:
    return sum(1 << bitboard.bit_of(cell) for cell in board.CELLS if max(map(abs, board.cube(cell))) == board.SIDE // 2)


def _edges() -> np.ndarray:
    """Return uint64 [6]: cells without a neighbour in each direction."""
    edges = np.zeros(len(board.DIRECTIONS), dtype=np.uint64)
    for i, direction in enumerate(board.DIRECTIONS):
        cells = [cell for cell in board.CELLS if not board.on_board(board.neighbour(cell, direction))]
        edges[i] = sum(1 << bitboard.bit_of(cell) for cell in cells)
    return edges


def _places() -> np.ndarray:
    """Return int64 [61, 2]: q and r of each cell, by bit."""
    places = np.zeros((len(board.CELLS), 2), dtype=np.int64)
    for cell in board.CELLS:
        places[bitboard.bit_of(cell)] = board.cube(cell)[:2]
    return places


_RIM = np.uint64(_rim())
_EDGES = _edges()
_PLACES = _places()


@compiled
def centre_distance(mine: np.uint64) -> int:
    """Return the sum of the steps of marbles to the centre."""
    return 4 * count_bits(mine) - bitboard.nearness(mine)


@compiled
def coherence(mine: np.uint64) -> int:
    """Return the number of neighbours of marbles among themselves, plus second neighbours behind them on the same line."""
    found = 0
    for axis in _AXES:
        pairs = mine & bitboard.behind(mine, axis)
        found += count_bits(pairs) + count_bits(mine & bitboard.behind(pairs, axis))
    return 2 * found  # each pair and each three counts from both ends


@compiled
def formation_break(mine: np.uint64, other: np.uint64) -> int:
    """Return the number of my marbles between two of theirs on any line."""
    between = _NONE
    for axis in _AXES:
        between |= bitboard.behind(other, axis) & bitboard.behind(other, (axis + 3) % 6)
    return count_bits(mine & between)


@compiled
def endangered(mine: np.uint64, other: np.uint64) -> np.uint64:
    """Return my marbles that the opponent can push off the board with one move."""
    found = _NONE
    for direction in range(6):
        rim = mine & _EDGES[direction]
        if rim:
            back = (direction + 3) % 6  # cells ahead of x in a direction are behind it in the opposite one
            second = other & bitboard.behind(other, back)
            third = other & bitboard.behind(second, back)
            found |= rim & bitboard.behind(second | (mine & bitboard.behind(third, back)), back)
    return found


@compiled
def single_danger(mine: np.uint64, other: np.uint64) -> int:
    """Return the number of neighbours of my marbles on the rim that are theirs."""
    return _touching(mine & _RIM, other)


@compiled
def double_danger(mine: np.uint64, other: np.uint64) -> int:
    """Return `single_danger` over my marbles on the rim with another of mine next to them on the rim."""
    rim = mine & _RIM
    accompanied = _NONE
    for direction in range(6):
        accompanied |= bitboard.behind(rim, direction)
    return _touching(rim & accompanied, other)


@compiled
def _touching(marbles: np.uint64, other: np.uint64) -> int:
    """Return the sum over marbles of their neighbours in `other`."""
    if marbles == _NONE:
        return 0
    found = 0
    for direction in range(6):
        found += count_bits(marbles & bitboard.behind(other, direction))
    return found


@compiled
def reference_distances(mine: np.uint64, other: np.uint64) -> tuple[int, int]:
    """Return the sums of the distances of my marbles and of theirs from the reference point, in 1 / REFERENCE_UNIT steps."""
    own_q, own_r = _mass(mine)
    their_q, their_r = _mass(other)
    q, r = _MASS * (own_q + their_q), _MASS * (own_r + their_r)
    return _distances(mine, q, r), _distances(other, q, r)


@compiled
def _mass(marbles: np.uint64) -> tuple[int, int]:
    """Return the mean q and r of marbles, times _COUNTS; 0 and 0 without marbles."""
    q, r, share = 0, 0, _COUNTS // max(1, count_bits(marbles))
    while marbles:
        bit = lowest_bit(marbles)
        q += _PLACES[bit, 0]
        r += _PLACES[bit, 1]
        marbles &= marbles - _ONE
    return q * share, r * share


@compiled
def _distances(marbles: np.uint64, q: int, r: int) -> int:
    """Return the sum of the distances of marbles from a point given in 1 / REFERENCE_UNIT steps, in the same unit."""
    found = 0
    while marbles:
        bit = lowest_bit(marbles)
        dq, dr = REFERENCE_UNIT * _PLACES[bit, 0] - q, REFERENCE_UNIT * _PLACES[bit, 1] - r
        found += max(abs(dq), abs(dr), abs(dq + dr))
        marbles &= marbles - _ONE
    return found


@lean
def feature(number: int, mine: np.uint64, other: np.uint64) -> int:
    """Return the lead of the player with the marbles `mine` in the feature `FEATURES[number]`."""
    if number == 0:
        return bitboard.neighbours(mine) - bitboard.neighbours(other)
    if number == 1:
        return centre_distance(mine) - centre_distance(other)
    if number == 2:
        return count_bits(mine) - count_bits(other)
    if number == 3:
        return coherence(mine) - coherence(other)
    if number == 4:
        return formation_break(mine, other) - formation_break(other, mine)
    if number == 5:
        return count_bits(endangered(mine, other)) - count_bits(endangered(other, mine))
    if number == 6:
        return single_danger(mine, other) - single_danger(other, mine)
    if number == 7:
        return double_danger(mine, other) - double_danger(other, mine)
    own, theirs = reference_distances(mine, other)
    return own - theirs
