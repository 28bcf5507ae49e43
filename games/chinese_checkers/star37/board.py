"""Star of 37 fields: geometry, three numberings of fields, and lookup tables of the rules.

Fields are (row, column) of a 9 x 9 array in which every field touches those at offsets `DIRECTIONS`. A move is described in
the mover's view: the board rotated so that the mover starts at the bottom. A player may occupy 25 of the 37 fields, numbered
here as in the actions (row by row from the top of the mover's view):

                 .                            0
                . .                          1 2
          O O O . Z Z Z                ' ' ' 3 4 5 ' ' '
           O O . . Z Z                  ' ' 6 7 8 9 ' '          (the six marked ' at each side
            O . . . Z                    10 11 12 13 14           and in the lower corners are
           . . . . . .                  '  15 16 17 18  '         corners of other players)
          . . X X X . .                ' ' 19 20 21 ' '
                X X                          22 23
                 X                            24

`field` is such a number, in its owner's view; `spot` is a number among all 37 fields. Spots are numbered so that a clockwise
rotation by 120 degrees maps spot s to s + 12 (modulo 36); spot 36 is the centre. So a rotation of the board is a bit rotation
of the low 36 bits of a 37-bit word.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "ACTION_FROM",
    "ACTION_TO",
    "CONSTANT_PLANES",
    "DIRECTIONS",
    "END_FIELDS",
    "END_SPOTS",
    "FIELDS",
    "FIELD_CELLS",
    "FIELD_SPOTS",
    "GRIDS",
    "GRID_ACTIONS",
    "GRID_FIELDS",
    "GRID_SIZES",
    "GRID_SPOTS",
    "HOPS",
    "HOP_SPOTS",
    "MOST_LEGAL",
    "NEAR",
    "NEVER_LEGAL",
    "ONTO",
    "OUTSIDE",
    "OVER",
    "PASS",
    "PIECES",
    "PLACES",
    "ROWS_GAINED",
    "SIDE",
    "SPOTS",
    "STAR",
    "START_FIELDS",
    "USABLE_SPOTS",
    "Cell",
    "action_cells",
    "turned",
]

Cell = tuple[int, int]

SIDE = 9
"""Rows and columns of the array."""
DIRECTIONS: tuple[Cell, ...] = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))
"""Offsets of the neighbours, in action order: up left, up right, left, right, down left, down right."""
_CENTRE = (4, 4)
_END_ZONE = ((0, 6), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6))
_START_ZONE = ((6, 2), (6, 3), (6, 4), (7, 2), (7, 3), (8, 2))


def turned(cell: Cell, turns: int) -> Cell:
    """Return the position of a field after `turns` clockwise rotations by 120 degrees.

    `cell` in player p's view is turned(cell, p) on the board; `cell` on the board is turned(cell, -p) in the view.
    """
    row, column = cell
    for _ in range(turns % 3):
        row, column = column, 12 - row - column
    return row, column


def _in_hexagon(cell: Cell) -> bool:
    down, right = cell[0] - _CENTRE[0], cell[1] - _CENTRE[1]
    return max(abs(down), abs(right), abs(down + right)) <= 2


_HEXAGON = {(row, column) for row in range(SIDE) for column in range(SIDE) if _in_hexagon((row, column))}

FIELDS: tuple[Cell, ...] = tuple(sorted(_HEXAGON | set(_END_ZONE) | set(_START_ZONE)))
"""The 25 fields open to a player, in the player's view, in numerical order."""
STAR: tuple[Cell, ...] = tuple(sorted(_HEXAGON | {turned(cell, turns) for cell in FIELDS for turns in range(3)}))
"""All 37 fields, row by row."""


def _numbered() -> tuple[Cell, ...]:
    """Return the fields in spot order."""
    orbits: list[Cell] = []
    for cell in STAR:
        if cell != _CENTRE and not {turned(cell, turns) for turns in range(3)} & set(orbits):
            orbits.append(cell)
    return (*(turned(cell, turns) for turns in range(3) for cell in orbits), _CENTRE)


SPOTS: tuple[Cell, ...] = _numbered()
"""All 37 fields in spot order."""
PIECES = 6

_SPOT = {cell: spot for spot, cell in enumerate(SPOTS)}
_FIELD = {cell: field for field, cell in enumerate(FIELDS)}


def _beside(cell: Cell, direction: int, steps: int = 1) -> Cell:
    down, right = DIRECTIONS[direction]
    return cell[0] + steps * down, cell[1] + steps * right


def _bit(cell: Cell) -> int:
    """Return the bit of a field in a word of spots, or 0 off the board."""
    return 1 << _SPOT[cell] if cell in _SPOT else 0


def _word(bits: int) -> np.uint64:
    return np.uint64(bits)


def _field_word(cells: tuple[Cell, ...]) -> np.uint64:
    """Return a 25-bit word with the bits of the given fields set."""
    return _word(sum(1 << _FIELD[cell] for cell in cells))


START_FIELDS, END_FIELDS = _field_word(_START_ZONE), _field_word(_END_ZONE)
USABLE_SPOTS = _word(sum(map(_bit, FIELDS)))
"""Spots, in the mover's view, on which the mover may end a move."""
END_SPOTS = np.array([sum(_bit(turned(cell, player)) for cell in _END_ZONE) for player in range(3)], dtype=np.uint64)
"""End zone of each player, as spots of the board; player 0's is also the mover's in the mover's view."""
FIELD_SPOTS = np.array([[_bit(turned(cell, turns)) for cell in FIELDS] for turns in range(3)], dtype=np.uint64)
"""Uint64 [3, 25]: bit of each field of player p, as a spot of the board."""

# --- hops: 6 * field + direction -------------------------------------------------------------------------------------

HOPS = 6 * len(FIELDS)


def _hop_spots(end_zone_locks: bool) -> list[list[int]]:
    """Return the bit of the hop target per field and direction in the mover's view, 0 if the hop is never legal."""
    table = []
    for cell in FIELDS:
        open_to = _END_ZONE if end_zone_locks and cell in _END_ZONE else FIELDS
        targets = [_beside(cell, direction) for direction in range(6)]
        table.append([_bit(target) if target in open_to else 0 for target in targets])
    return table


HOP_SPOTS = np.array([_hop_spots(False), _hop_spots(True)], dtype=np.uint64)
"""Uint64 [2, 25, 6]: bit of each hop target, indexed by end-zone lock, field and direction."""

# --- jumps: 150 + start of the grid + size * i + j ---------------------------------------------------------------------

GRIDS: tuple[tuple[Cell, ...], ...] = tuple(
    tuple(cell for cell in FIELDS if (cell[0] % 2, cell[1] % 2) == parity) for parity in ((0, 0), (1, 1), (1, 0), (0, 1))
)
"""Grids of 9, 6, 6 and 4 fields: jumps move by two fields, so a jumping piece stays in its grid."""
GRID_SIZES = np.array([len(grid) for grid in GRIDS], dtype=np.int64)
GRID_ACTIONS = HOPS + np.array([sum(len(grid) ** 2 for grid in GRIDS[:g]) for g in range(4)], dtype=np.int64)
"""Number of the first action of each grid."""
GRID_FIELDS = np.array([_field_word(grid) for grid in GRIDS], dtype=np.uint64)
GRID_SPOTS = np.array([[*map(_bit, grid), *[0] * (9 - len(grid))] for grid in GRIDS], dtype=np.uint64)
"""Uint64 [4, 9]: bits of the fields of each grid in the mover's view, in order."""
PLACES = np.array([next(grid.index(cell) for grid in GRIDS if cell in grid) for cell in FIELDS], dtype=np.int64)
"""Int64 [25]: index of each field in its grid."""
PASS = HOPS + sum(len(grid) ** 2 for grid in GRIDS)

OVER = np.array([[_bit(_beside(cell, d)) for d in range(6)] for cell in SPOTS], dtype=np.uint64)
"""Uint64 [37, 6]: bit of each spot's neighbour, 0 where a jump in that direction would leave the board."""
ONTO = np.array([[_bit(_beside(cell, d, 2)) for d in range(6)] for cell in SPOTS], dtype=np.uint64)
"""Uint64 [37, 6]: bit of the spot behind the neighbour."""
OVER[ONTO == 0] = 0
NEAR = np.bitwise_or.reduce(OVER, axis=1)
"""Uint64 [37]: neighbours that can be jumped over from each spot."""

# --- actions -----------------------------------------------------------------------------------------------------------

_MOVES: tuple[tuple[Cell, Cell], ...] = (
    *((cell, _beside(cell, direction)) for cell in FIELDS for direction in range(6)),
    *((start, end) for grid in GRIDS for start in grid for end in grid),
)
"""Source and target of each action except the pass."""

ACTION_FROM = np.array([*(_FIELD[start] for start, _ in _MOVES), -1], dtype=np.int64)
ACTION_TO = np.array([*(_FIELD.get(end, -1) for _, end in _MOVES), -1], dtype=np.int64)
"""Int64 [320]: source and target fields of each action; -1 for the pass and for targets out of bounds."""
ROWS_GAINED = np.array([*(start[0] - end[0] for start, end in _MOVES), 0], dtype=np.float64)
"""Float64 [320]: rows gained by each action in the mover's view."""


def action_cells() -> np.ndarray:
    """Return int16 [320, 2]: source and target cells of each action, -1 for the pass and targets off the board."""
    cells = [[_cell(start), _cell(end) if end in STAR else -1] for start, end in _MOVES]
    return np.array([*cells, [-1, -1]], dtype=np.int16)


def _cell(cell: Cell) -> int:
    return SIDE * cell[0] + cell[1]


def _never_legal() -> dict[str, tuple[int, ...]]:
    leaving = [a for a, (start, end) in enumerate(_MOVES) if start in _END_ZONE and end in STAR and end not in _END_ZONE]
    return {
        "hop off the board": tuple(a for a, (_, end) in enumerate(_MOVES[:HOPS]) if end not in STAR),
        "hop into a corner of another player": tuple(
            a for a, (_, end) in enumerate(_MOVES[:HOPS]) if end in STAR and end not in FIELDS
        ),
        "jump that ends where it began": tuple(a for a, (start, end) in enumerate(_MOVES) if start == end),
        "hop out of the end zone": tuple(a for a in leaving if a < HOPS),
        "jump out of the end zone": tuple(a for a in leaving if a >= HOPS),
    }


NEVER_LEGAL = _never_legal()
"""Actions that are never legal, by reason; two hops have two reasons. The last two only if the end zone locks."""


def _most_legal() -> int:
    """Return a bound on the number of legal actions of a position.

    Six pieces have at most six hops each. Each of k pieces in a grid of n fields can jump to at most n - k of them.
    """
    most = 0
    for in_first in range(PIECES + 1):
        for in_second in range(PIECES + 1 - in_first):
            for in_third in range(PIECES + 1 - in_first - in_second):
                pieces = (in_first, in_second, in_third, PIECES - in_first - in_second - in_third)
                jumps = [k * (len(grid) - k) for k, grid in zip(pieces, GRIDS, strict=True) if k <= len(grid)]
                if len(jumps) == len(GRIDS):
                    most = max(most, sum(jumps))
    return 6 * PIECES + most


MOST_LEGAL = _most_legal()

# --- planes ------------------------------------------------------------------------------------------------------------

FIELD_CELLS = np.array([[_cell(turned(cell, seat)) for cell in FIELDS] for seat in range(3)], dtype=np.int64)
"""Int64 [3, 25]: plane cells of the players' fields: the viewer's, the next player's, the previous player's."""


def _constant_planes() -> np.ndarray:
    """Return the packed constant planes: the three end zones, the viewer's first, and the board."""
    planes = np.zeros((7, SIDE * SIDE), dtype=np.uint8)
    for seat in range(3):
        planes[3 + seat, [_cell(turned(cell, seat)) for cell in _END_ZONE]] = 1
    planes[6, [_cell(cell) for cell in STAR]] = 1
    return np.packbits(planes.ravel(), bitorder="little")


CONSTANT_PLANES = _constant_planes()
"""Uint8 [71]: seven packed planes, the first three of them empty."""


def _outside() -> np.ndarray:
    """Return four packed planes: three empty ones, and the cells of the array that are off the board."""
    planes = np.zeros((4, SIDE * SIDE), dtype=np.uint8)
    planes[3] = 1
    planes[3, [_cell(cell) for cell in STAR]] = 0
    return np.packbits(planes.ravel(), bitorder="little")


OUTSIDE = _outside()
"""Uint8 [41]: four packed planes, the first three of them empty."""
