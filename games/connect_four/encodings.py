"""Encodings of Connect Four: `planes`, and the three of the thesis of Bagge and Grigo (Aarhus University, 2016, section 6.4).

    word        planes                                                       a network without a board reads
    planes      mine, the other's, all ones if I am player 0                 the bits
    naive       mine, the other's, my turn                                   1, -1 or 0 a cell, then 1 or -1: S + 1 numbers
    extended    mine, the other's, empty, my turn, the other's turn          3 bits a cell, then 2: 3 S + 2
    feature     mine, the other's, empty, my threats, the other's threats,   5 bits a cell, then 2: 5 S + 2
                my turn, the other's turn

with S cells: 43, 128 and 212 numbers on 6 x 7. A threat of a player is an empty cell, supported or not, on which their stone
would complete a line. Planes of a turn are all ones or all zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import compiled
from games.connect_four import bitboard
from games.connect_four import columns as by_column
from games.core import State
from games.kit.bits import set_range
from games.reading import Reading
from games.views import OtherView

__all__ = ["ENCODINGS", "num_planes", "other_view", "put_empty_cells", "put_threats", "put_turn", "reading"]

ENCODINGS = ("planes", "naive", "extended", "feature")
_NAIVE, _FEATURE = 1, 3
_PLANES = (3, 3, 5, 7)
_ONE = np.uint64(1)


def num_planes(encoding: int) -> int:
    """Return the number of planes of an encoding."""
    return _PLANES[encoding]


def reading(encoding: int) -> Reading | None:
    """Return the reading of the planes of an encoding; None: a network reads their bits."""
    if encoding == 0:
        return None
    if encoding == _NAIVE:
        return Reading(cells=((1.0, -1.0, 0.0),), position=((0.0, 0.0, 2.0),), offsets=(-1.0,))
    planes = _PLANES[encoding]
    units = [tuple(float(i == k) for i in range(planes)) for k in range(planes)]
    return Reading(cells=tuple(units[:-2]), position=tuple(units[-2:]), offsets=(0.0, 0.0))


def other_view(encoding: int) -> OtherView:
    """Return how the planes of an encoding become those of the player who is not to move."""
    if encoding <= _NAIVE:  # the last plane is my turn, or that I am player 0
        return OtherView(sources=(1, 0, 2), inverted=(False, False, True))
    sources = (1, 0, 2, 4, 3, 6, 5) if encoding == _FEATURE else (1, 0, 2, 4, 3)
    return OtherView(sources=sources, inverted=(False,) * len(sources))


@compiled
def put_turn(game: Any, mine: bool, out: np.ndarray) -> None:
    """Set the planes of the turn, the last ones of an encoding of the thesis."""
    cells = game.rows * game.columns
    if game.encoding == _NAIVE:
        if mine:
            set_range(out, 2 * cells, 3 * cells)
        return
    first = 5 if game.encoding == _FEATURE else 3
    if not mine:
        first += 1
    set_range(out, first * cells, (first + 1) * cells)


@compiled
def put_empty_cells(game: Any, state: State, fits_bitboard: bool, out: np.ndarray) -> None:
    """Set plane 2: the empty cells."""
    bottom = (3 * game.rows - 1) * game.columns
    if fits_bitboard:
        _put_word(game, bitboard.empty_cells(game, state), bottom, out)
    else:
        for column in range(game.columns):
            by_column.put_cells(out, bottom + column, game.columns, by_column.empty_cells(game, state, column))


@compiled
def put_threats(game: Any, state: State, viewer: int, fits_bitboard: bool, out: np.ndarray) -> None:
    """Set planes 3 and 4: the threats of the viewer and of the other player."""
    for seat in range(2):
        player = int((np.int64(viewer) + seat) % 2)  # compiled callers may have an unsigned viewer
        bottom = ((4 + seat) * game.rows - 1) * game.columns
        if fits_bitboard:
            _put_word(game, bitboard.threats(game, state, player), bottom, out)
        else:
            for column in range(game.columns):
                by_column.put_cells(out, bottom + column, game.columns, by_column.threats(game, state, column, player))


@compiled
def _put_word(game: Any, word: np.uint64, bottom: int, out: np.ndarray) -> None:
    """Set the bits of a bitboard's cells in the plane whose lowest left cell is bit `bottom`."""
    column_mask = (_ONE << np.uint64(game.rows)) - _ONE
    height = np.uint64(game.rows + 1)
    for column in range(game.columns):
        if not word:
            break
        by_column.put_cells(out, bottom + column, game.columns, word & column_mask)
        word >>= height
