"""Star of 121 fields: numbering, neighbours, rotations, and move generation.

Fields are numbered row by row from the top left. A field has row t and column q relative to the centre, in slanted
coordinates whose neighbours are (t, q +- 1), (t +- 1, q), (t - 1, q + 1) and (t + 1, q - 1); with s = -q - t, the star is the
set where all of t, q, s are <= 4 or all are >= -4. Corners are numbered clockwise from the bottom:

                        0                                3
                       1 2
                   10 .. .. .. 22              2                   4
                     .. .. .. ..
                   56 .. 60 .. 64                    centre 60
                     .. .. .. ..
                   98 .. .. .. 110             1                   5
                       118 119
                         120                             0

The view from a corner is the board rotated by multiples of 60 degrees until that corner is at the bottom: the home is then
111 .. 120 and the goal 0 .. 9. A set of fields is two words: field f is bit f of the first, or bit f - 64 of the second.
"""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from games.core import Symmetry
from games.kit.bits import lowest_bit, set_bit

__all__ = [
    "CELLS",
    "DIRECTIONS",
    "FIELDS",
    "GOAL",
    "HOME",
    "MIRROR",
    "PLACES",
    "ROWS",
    "SIDE",
    "TURNED",
    "WITHOUT_CORNERS",
    "corner_fields",
    "encode_fields",
    "holds",
    "list_targets",
    "mirror",
    "most_moves",
    "reached",
    "sum_of_rows",
    "turned",
    "words_of",
]

FIELDS = 121
CORNER_FIELDS = 10
SIDE = 17
"""Side of the smallest square that contains the slanted star."""
_HALF = 8
_INNER = 4
DIRECTIONS = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))
_ONE = np.uint64(1)
_LAST_BIT = 63
_WORD = 64


def _is_on_star(t: int, q: int) -> bool:
    s = -q - t
    return max(t, q, s) <= _INNER or min(t, q, s) >= -_INNER


PLACES = tuple((t, q) for t in range(-_HALF, _HALF + 1) for q in range(-_HALF, _HALF + 1) if _is_on_star(t, q))
"""Row and slanted column of each field, relative to the centre."""
_NUMBER = {place: field for field, place in enumerate(PLACES)}


def _is_between_home_and_goal(place: tuple[int, int]) -> bool:
    """Return whether a place is outside the four side corners, in the view from corner 0."""
    t, q = place
    return abs(q) <= _INNER and abs(q + t) <= _INNER


def _neighbours(distance: int) -> np.ndarray:
    """Return int16 [121, 6]: the fields at a distance in each direction, -1 off the board."""
    return np.array(
        [[_NUMBER.get((t + distance * dt, q + distance * dq), -1) for dt, dq in DIRECTIONS] for t, q in PLACES],
        dtype=np.int16,
    )


def _turns() -> np.ndarray:
    """Return int16 [6, 121]: the position of each field when a corner is rotated to the bottom."""
    turns = np.empty((6, FIELDS), dtype=np.int16)
    turns[0] = np.arange(FIELDS)
    sixth = np.array([_NUMBER[-q, q + t] for t, q in PLACES], dtype=np.int16)  # (t, q, s) becomes (-q, -s, -t)
    for corner in range(1, 6):
        turns[corner] = sixth[turns[corner - 1]]
    return turns


def words_of(fields: list[int]) -> tuple[np.uint64, np.uint64]:
    """Return a set of fields as two words."""
    bits = sum(1 << field for field in fields)
    return np.uint64(bits & (1 << _WORD) - 1), np.uint64(bits >> _WORD)


CELLS = np.array([(t + _HALF) * SIDE + q + _HALF for t, q in PLACES], dtype=np.int16)
"""Cell of each field in the planes."""
ROWS = np.array([t + _HALF for t, _ in PLACES], dtype=np.int16)
TURNED = _turns()
"""TURNED[k, f] is the position of field f when corner k is rotated to the bottom; TURNED[6 - k] is the inverse."""
MIRROR = np.array([_NUMBER[t, -q - t] for t, q in PLACES], dtype=np.int16)
_NEXT, _BEYOND = _neighbours(1), _neighbours(2)


def corner_fields(corner: int) -> list[int]:
    """Return the ten fields of a corner in the view from corner 0, ascending."""
    back = TURNED[(6 - corner) % 6]
    return sorted(int(back[field]) for field in range(FIELDS - CORNER_FIELDS, FIELDS))


HOME, GOAL = words_of(corner_fields(0)), words_of(corner_fields(3))
WITHOUT_CORNERS = words_of([field for field, place in enumerate(PLACES) if _is_between_home_and_goal(place)])
"""Home, goal and the fields between: all but the four side corners."""


def most_moves(players: int, open_corners: bool) -> int:
    """Return a bound on the number of legal moves.

    A piece steps to at most 6 fields. Jumps preserve the parities of row and column, which define four classes of fields; a
    piece of another class is in the middle of only one jump within a class. So each of n pieces in a class of m fields can
    jump to at most min(m, pieces on the board) - n of them. The bound is the maximum over distributions of ten pieces.
    """
    allowed = [place for place in PLACES if open_corners or _is_between_home_and_goal(place)]
    fields = [sum((t % 2, q % 2) == parity for t, q in allowed) for parity in ((0, 0), (0, 1), (1, 0), (1, 1))]
    sizes = [min(count, CORNER_FIELDS * players) for count in fields]
    pieces = [0, 0, 0, 0]
    for _ in range(CORNER_FIELDS):  # the sum is concave in each count, so the greedy choice is optimal
        gains = [size - 2 * n - 1 for size, n in zip(sizes, pieces, strict=True)]
        pieces[gains.index(max(gains))] += 1
    return 6 * CORNER_FIELDS + sum(n * (size - n) for size, n in zip(sizes, pieces, strict=True))


def mirror() -> Symmetry:
    """Return the left-right reflection for actions 121 * from + to and the pass; with three players and more it would reverse
    the order of play."""
    cells = np.arange(SIDE * SIDE, dtype=np.int32)
    cells[CELLS] = CELLS[MIRROR]
    actions = np.append(MIRROR[:, np.newaxis] * np.int16(FIELDS) + MIRROR, np.int16(FIELDS * FIELDS))
    return Symmetry("mirror", cells, actions)


@compiled
def holds(first: np.uint64, second: np.uint64, field: int) -> bool:
    """Return whether a set contains a field."""
    word = first if field < _WORD else second
    return ((word >> np.uint64(field & _LAST_BIT)) & _ONE) != 0  # type: ignore[no-any-return]


@compiled
def _with(first: np.uint64, second: np.uint64, field: int) -> tuple[np.uint64, np.uint64]:
    """Return a set with a field added."""
    bit = _ONE << np.uint64(field & _LAST_BIT)
    return (first | bit, second) if field < _WORD else (first, second | bit)


@compiled
def turned(first: np.uint64, second: np.uint64, corner: int) -> tuple[np.uint64, np.uint64]:
    """Return a set rotated so that `corner` is at the bottom."""
    if corner == 0:
        return first, second
    low, high = np.uint64(0), np.uint64(0)
    rest, offset = first, 0
    for _ in range(2):
        while rest:
            low, high = _with(low, high, TURNED[corner, lowest_bit(rest) + offset])
            rest &= rest - _ONE
        rest, offset = second, _WORD
    return low, high


@compiled
def reached(origin: int, first: np.uint64, second: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the fields that a piece on `origin` can reach by a step or jumps, with all pieces in the set (first, second).

    The set may contain the moving piece: it is never jumped over, because jumps preserve the parities of row and column, and
    the middle of a jump has other parities.
    """
    low, high = _jumped(origin, first, second)
    for direction in range(6):
        field = _NEXT[origin, direction]
        if field >= 0 and not holds(first, second, field):
            low, high = _with(low, high, field)
    return low, high


@compiled
def _jumped(origin: int, first: np.uint64, second: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the fields reached by chains of jumps from `origin`."""
    low, high = np.uint64(0), np.uint64(0)
    open_low, open_high = _with(low, high, origin)  # reached, onward jumps not expanded yet
    while open_low | open_high:
        if open_low:
            field = lowest_bit(open_low)
            open_low &= open_low - _ONE
        else:
            field = lowest_bit(open_high) + _WORD
            open_high &= open_high - _ONE
        for direction in range(6):
            landing = _BEYOND[field, direction]
            if landing < 0 or holds(first | low, second | high, landing):
                continue
            if holds(first, second, _NEXT[field, direction]):
                low, high = _with(low, high, landing)
                open_low, open_high = _with(open_low, open_high, landing)
    return low, high


@compiled
def list_targets(base: int, targets: np.uint64, out: np.ndarray, count: int) -> int:
    """Append `base` + the index of every set bit of `targets` to `out`; return the new length."""
    while targets:
        out[count] = base + lowest_bit(targets)
        count += 1
        targets &= targets - _ONE
    return count


@compiled
def encode_fields(first: np.uint64, second: np.uint64, start: int, out: np.ndarray) -> None:
    """Set the bits of a set of fields in the plane that starts at bit `start`."""
    offset = 0
    for _ in range(2):
        while first:
            set_bit(out, start + CELLS[lowest_bit(first) + offset])
            first &= first - _ONE
        first, offset = second, _WORD


@compiled
def sum_of_rows(first: np.uint64, second: np.uint64) -> int:
    """Return the sum of the rows, counted from the top, over a set of fields."""
    rows, offset = 0, 0
    for _ in range(2):
        while first:
            rows += ROWS[lowest_bit(first) + offset]
            first &= first - _ONE
        first, offset = second, _WORD
    return rows
