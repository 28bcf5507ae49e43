"""Connect Four on boards of more than 64 bits: one word per column.

State (uint64 [1 + columns]): the status word of `games.connect_four.rules`, then one word per column from the left.
The low half of a column's word holds the stones of player 0, the high half those of player 1; bit y is row y from
the bottom:

    bit 63 ...... 32 31 ....... 0
        player 1     player 0         hence at most 32 rows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import compiled
from games.core import State
from games.kit.bits import set_bit
from games.kit.randomness import mix64

__all__ = ["MAX_ROWS", "empty_cells", "encode_stones", "key", "legal", "play", "put_cells", "put_column", "threats"]

MAX_ROWS = 32

_ONE = np.uint64(1)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_KEY_SEED = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _stones(word: np.uint64, player: int) -> np.uint64:
    """Return the stones of one player in a column, bit y for row y."""
    return (word >> np.uint64(32 * player)) & _LOW


@compiled
def legal(game: Any, state: State, out: np.ndarray) -> int:
    """Write the columns that are not full, from the left, and return their number."""
    top = _ONE << np.uint64(game.rows - 1)
    count = 0
    for column in range(game.columns):
        word = state[1 + column]
        if not (word | (word >> _HALF)) & top:
            out[count] = column
            count += 1
    return count


@compiled
def play(game: Any, state: State, column: int, player: int) -> bool:
    """Drop a stone of `player` and return whether it completes a line."""
    word = state[1 + column]
    taken = (word | (word >> _HALF)) & _LOW
    bit = (taken + _ONE) & ~taken  # the lowest empty cell
    word |= bit << np.uint64(32 * player)
    state[1 + column] = word
    return _completes_column(game, _stones(word, player), bit) or _completes_line(game, state, column, player, bit)


@compiled
def _completes_column(game: Any, stones: np.uint64, bit: np.uint64) -> bool:
    """Return whether `bit` is the top of `connect` stones in a column."""
    length = 0
    while bit and stones & bit:
        length += 1
        bit >>= _ONE
    return bool(length >= game.connect)


@compiled
def _completes_line(game: Any, state: State, column: int, player: int, bit: np.uint64) -> bool:
    """Return whether the stone `bit` of a column belongs to a row or a diagonal of `connect` stones.

    Slope is the change of row per column to the right. A bit shifted off the board matches no stone.
    """
    for slope in range(-1, 2):
        length = 1
        for side in range(2):
            step = 1 - 2 * side
            rise = slope * step
            x = column + step
            probe = bit
            while 0 <= x < game.columns and length < game.connect:
                if rise > 0:
                    probe <<= _ONE
                elif rise < 0:
                    probe >>= _ONE
                if not _stones(state[1 + x], player) & probe:
                    break
                length += 1
                x += step
        if length >= game.connect:
            return True
    return False


@compiled
def put_column(out: np.ndarray, bottom: int, columns: int, cells: int, mine: np.uint64, taken: np.uint64) -> None:
    """Set the plane bits of one column: `mine` among the `taken` cells in plane 0, the others in plane 1.

    Args:
        out: uint8 [packed_bytes], cleared.
        bottom: Bit of the column's lowest cell in plane 0, which is in the last row of the plane.
        columns: Width of the board.
        cells: Bits of a plane.
        mine: Stones of the viewer, bit y for row y.
        taken: Stones of both.
    """
    bit = bottom
    while taken:
        set_bit(out, bit if mine & _ONE else bit + cells)
        mine >>= _ONE
        taken >>= _ONE
        bit -= columns


@compiled
def encode_stones(game: Any, state: State, viewer: int, out: np.ndarray) -> None:
    """Set the bits of the first two planes: stones of the viewer, stones of the other player."""
    last_row = (game.rows - 1) * game.columns
    for column in range(game.columns):
        word = state[1 + column]
        put_column(
            out,
            last_row + column,
            game.columns,
            game.rows * game.columns,
            _stones(word, viewer),
            (word | (word >> _HALF)) & _LOW,
        )


@compiled
def put_cells(out: np.ndarray, bottom: int, columns: int, cells: np.uint64) -> None:
    """Set the bits of some cells of a column; `bottom` is the bit of its lowest cell in their plane (see `put_column`)."""
    bit = bottom
    while cells:
        if cells & _ONE:
            set_bit(out, bit)
        cells >>= _ONE
        bit -= columns


@compiled
def empty_cells(game: Any, state: State, column: int) -> np.uint64:
    """Return the cells of a column without a stone, bit y for row y."""
    word = state[1 + column]
    return ~(word | (word >> _HALF)) & ((_ONE << np.uint64(game.rows)) - _ONE)  # type: ignore[no-any-return]


@compiled
def threats(game: Any, state: State, column: int, player: int) -> np.uint64:
    """Return the empty cells of a column, supported or not, on which a stone of `player` would complete a line."""
    stones = _stones(state[1 + column], player)
    found = ~np.uint64(0)
    for _ in range(game.connect - 1):  # no stone lies above an empty cell
        stones <<= _ONE
        found &= stones
    for slope in range(-1, 2):
        found |= _gaps(game, state, column, player, slope)
    return found & empty_cells(game, state, column)


@compiled
def _gaps(game: Any, state: State, column: int, player: int, slope: int) -> np.uint64:
    """Return the rows, as bits, in which a column lacks one cell of a line along a slope, whose others `player` holds."""
    found = np.uint64(0)
    left = ~np.uint64(0)
    for before in range(game.connect):
        line = left
        for distance in range(1, game.connect - before):
            line &= _shifted(game, state, column + distance, player, slope * distance)
        found |= line
        left &= _shifted(game, state, column - before - 1, player, -slope * (before + 1))
        if not left:
            break
    return found


@compiled
def _shifted(game: Any, state: State, column: int, player: int, rows: int) -> np.uint64:
    """Return the stones of a column, moved down by `rows` (up if negative); none outside of the board."""
    if column < 0 or column >= game.columns or rows >= MAX_ROWS or -rows >= MAX_ROWS:
        return np.uint64(0)
    stones = _stones(state[1 + column], player)
    return stones >> np.uint64(rows) if rows >= 0 else stones << np.uint64(-rows)


@compiled
def key(game: Any, state: State) -> np.uint64:
    """Return a hash of all column words."""
    mixed = _KEY_SEED
    for column in range(game.columns):
        mixed = mix64(mixed ^ state[1 + column])
    return mixed
