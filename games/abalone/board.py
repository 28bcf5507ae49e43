r"""Board of Abalone: cells, directions, numbered moves and symmetries.

Rows are lettered from the bottom, digits label the diagonals that rise to the left. `q`, `r` and `s` are cube coordinates from
the centre along the three axes of the board; they sum to 0:

            I  5 6 7 8 9
           H  4 5 6 7 8 9            NW   NE
          G  3 4 5 6 7 8 9             \ /            NE  (+1, -1,  0)      SW  (-1, +1,  0)
         F  2 3 4 5 6 7 8 9         W - o - E        E   (+1,  0, -1)      W   (-1,  0, +1)
        E  1 2 3 4 5 6 7 8 9           / \            SE  ( 0, +1, -1)      NW  ( 0, -1, +1)
         D  1 2 3 4 5 6 7 8          SW   SE
          C  1 2 3 4 5 6 7
           B  1 2 3 4 5 6            E5 is (0, 0, 0), A1 is (-4, 4, 0)
            A  1 2 3 4 5

A move is a line of marbles and a direction. A move in line is written with the rear marble of the line alone, which pushes
the marbles ahead of it (`A1NE`); a sideways move with both ends of the line, the lower one first (`C3C5NW`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from games.core import Symmetry

__all__ = [
    "CELLS",
    "DIRECTIONS",
    "LAYOUTS",
    "NUMBERS_OF_MOVES",
    "SIDE",
    "Move",
    "cell_name",
    "cube",
    "moves",
    "moves_of",
    "neighbour",
    "on_board",
    "plane_cell",
    "sideways",
    "symmetries",
]

Cell: TypeAlias = tuple[int, int]
"""Row and column, from 0: A1 is (0, 0), I9 is (8, 8)."""

SIDE = 9
DIRECTIONS = {"NE": (1, 1), "E": (0, 1), "SE": (-1, 0), "SW": (-1, -1), "W": (0, -1), "NW": (1, 0)}
"""Row and column offsets of a step; opposite directions are three places apart."""
_LINE_DIRECTIONS = ("NE", "E", "NW")
"""Directions of a line from its lower end."""
NUMBERS_OF_MOVES = (1452, 1272)
"""Numbers of moves with and without the sideways moves that leave the board, which are never legal."""

LAYOUTS = {
    "standard": ("A1 A2 A3 A4 A5 B1 B2 B3 B4 B5 B6 C3 C4 C5", "I5 I6 I7 I8 I9 H4 H5 H6 H7 H8 H9 G5 G6 G7"),
    "belgian_daisy": ("A1 A2 B1 B2 B3 C2 C3 G7 G8 H7 H8 H9 I8 I9", "A4 A5 B4 B5 B6 C5 C6 G4 G5 H4 H5 H6 I5 I6"),
    "german_daisy": ("B1 B2 C1 C2 C3 D2 D3 F7 F8 G7 G8 G9 H8 H9", "B5 B6 C5 C6 C7 D6 D7 F3 F4 G3 G4 G5 H4 H5"),
}
"""Marbles of player 0 and of player 1 at the start."""


def on_board(cell: Cell) -> bool:
    """Return whether a cell is on the board."""
    row, column = cell
    return 0 <= row < SIDE and 0 <= column < SIDE and abs(row - column) <= SIDE // 2


CELLS: tuple[Cell, ...] = tuple((row, column) for row in range(SIDE) for column in range(SIDE) if on_board((row, column)))
"""Cells in the order A1, A2, .. I9."""


def cell_name(cell: Cell) -> str:
    """Return the notation of a cell, such as `E5`."""
    return f"{'ABCDEFGHI'[cell[0]]}{cell[1] + 1}"


def neighbour(cell: Cell, direction: str) -> Cell:
    """Return the adjacent cell in a direction, on the board or not."""
    return cell[0] + DIRECTIONS[direction][0], cell[1] + DIRECTIONS[direction][1]


def cube(cell: Cell) -> tuple[int, int, int]:
    """Return the cube coordinates (q, r, s) of a cell, or of an offset in rows and columns from the central cell."""
    q, r = cell[1] - SIDE // 2, SIDE // 2 - cell[0]
    return q, r, -q - r


def plane_cell(cell: Cell) -> int:
    """Return the index of a cell in a plane of 9 x 9 cells: row I first, column 1 first."""
    return (SIDE - 1 - cell[0]) * SIDE + cell[1]


class Move(NamedTuple):
    """Line of marbles and its direction. In line, only the rear marble represents the line."""

    line: tuple[Cell, ...]
    direction: str

    def __str__(self) -> str:
        ends = (self.line[0], self.line[-1]) if self.is_sideways else (self.line[0],)
        return "".join(map(cell_name, ends)) + self.direction

    @property
    def is_sideways(self) -> bool:
        """Whether two or three marbles step sideways, off their line."""
        return len(self.line) > 1

    @property
    def stays_on_board(self) -> bool:
        """Whether every marble of the line has a target cell on the board."""
        return all(on_board(neighbour(cell, self.direction)) for cell in self.line)


@functools.cache
def moves(count: int) -> tuple[Move, ...]:
    """Return the moves in the order of their numbers; `count` is one of `NUMBERS_OF_MOVES`.

    Ordered by cell, then by direction: the step in line, then the pair, then the triple that extends from the cell in that
    direction, each with its sideways steps. A line belongs to its lower end.
    """
    every = tuple(_every_move())
    return every if count == len(every) else tuple(move for move in every if move.stays_on_board)


def _every_move() -> Iterator[Move]:
    for cell in CELLS:
        for move in moves_of(cell):
            if all(map(on_board, move.line)) and (move.is_sideways or move.stays_on_board):
                yield move


def moves_of(cell: Cell) -> Iterator[Move]:
    """Yield the 30 moves of the lines that belong to a cell, on the board or not, in the order of their numbers."""
    for ahead in DIRECTIONS:
        yield Move((cell,), ahead)
        for length in (2, 3) if ahead in _LINE_DIRECTIONS else ():
            yield from (Move(_line(cell, ahead, length), direction) for direction in sideways(ahead))


def _line(cell: Cell, ahead: str, length: int) -> tuple[Cell, ...]:
    line = [cell]
    while len(line) < length:
        line.append(neighbour(line[-1], ahead))
    return tuple(line)


def sideways(ahead: str) -> list[str]:
    """Return the four sideways directions of a line along `ahead`."""
    names = list(DIRECTIONS)
    return [name for name in names if (names.index(name) - names.index(ahead)) % 3]


Cube: TypeAlias = tuple[int, int, int]
_IMAGES: dict[str, Callable[[int, int, int], Cube]] = {
    "rotate60": lambda q, r, s: (-r, -s, -q),
    "rotate120": lambda q, r, s: (s, q, r),
    "rotate180": lambda q, r, s: (-q, -r, -s),
    "rotate240": lambda q, r, s: (r, s, q),
    "rotate300": lambda q, r, s: (-s, -q, -r),
    "mirror_q": lambda q, r, s: (q, s, r),
    "mirror_r": lambda q, r, s: (s, r, q),
    "mirror_s": lambda q, r, s: (r, q, s),
    "rotate180_mirror_q": lambda q, r, s: (-q, -s, -r),
    "rotate180_mirror_r": lambda q, r, s: (-s, -r, -q),
    "rotate180_mirror_s": lambda q, r, s: (-r, -q, -s),
}
"""Images of (q, r, s). Rotations are clockwise; a mirror exchanges the two axes it is not named after."""


@functools.cache
def symmetries(count: int) -> tuple[Symmetry, ...]:
    """Return the eleven rotations and reflections besides the identity, for a table of `count` moves.

    Off-board cells of the 9 x 9 plane are fixed.
    """
    numbers = {str(move): number for number, move in enumerate(moves(count))}
    found = []
    for name, image in _IMAGES.items():
        cells = np.arange(SIDE * SIDE, dtype=np.int32)
        for cell in CELLS:
            cells[plane_cell(_image(cell, image))] = plane_cell(cell)
        actions = [numbers[str(_image_of_move(move, image))] for move in moves(count)]
        found.append(Symmetry(name, cells, np.array(actions, dtype=np.int16)))
    return tuple(found)


def _image(cell: Cell, image: Callable[[int, int, int], Cube]) -> Cell:
    q, r, _ = image(*cube(cell))
    return SIDE // 2 - r, q + SIDE // 2


def _image_of_move(move: Move, image: Callable[[int, int, int], Cube]) -> Move:
    ends = sorted(_image(cell, image) for cell in move.line)
    start, end = _image(move.line[0], image), _image(neighbour(move.line[0], move.direction), image)
    step = end[0] - start[0], end[1] - start[1]
    return Move(tuple(ends), next(name for name, delta in DIRECTIONS.items() if delta == step))
