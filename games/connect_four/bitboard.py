"""Connect Four on boards of up to 64 bits: one word of stones per player.

State (uint64 [3]): the status word of `games.connect_four.rules`, stones of player 0, stones of player 1. Every column takes
rows + 1 bits, of which the highest is always 0, so that lines do not continue into the next column. On 6 x 7:

     .  .  .  .  .  .  .      6 13 20 27 34 41 48   never a stone
     .  .  .  .  .  .  .      5 12 19 26 33 40 47
     .  .  .  .  .  .  .      4 11 18 25 32 39 46
     .  .  .  .  .  .  .      3 10 17 24 31 38 45
     .  .  .  .  .  .  .      2  9 16 23 30 37 44
     .  .  .  .  .  .  .      1  8 15 22 29 36 43
     .  .  .  .  .  .  .      0  7 14 21 28 35 42
     a  b  c  d  e  f  g      a  b  c  d  e  f  g
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import compiled
from games.connect_four.columns import put_column
from games.core import State
from games.kit.randomness import mix64

__all__ = ["empty_cells", "encode_stones", "key", "legal", "may_end", "play", "threats"]

_ONE = np.uint64(1)


@compiled
def legal(game: Any, state: State, out: np.ndarray) -> int:
    """Write the columns that are not full, from the left, and return their number."""
    taken = state[1] | state[2]
    top = _ONE << np.uint64(game.rows - 1)
    height = np.uint64(game.rows + 1)
    count = 0
    for column in range(game.columns):
        if not taken & top:
            out[count] = column
            count += 1
        top <<= height
    return count


@compiled
def play(game: Any, state: State, column: int, player: int) -> bool:
    """Drop a stone of `player` and return whether it completes a line."""
    taken = state[1] | state[2]
    bottom = _ONE << np.uint64(column * (game.rows + 1))
    stones = state[1 + player] | ((taken + bottom) & ~taken)  # the carry stops at the lowest empty cell
    state[1 + player] = stones
    return (
        _has_line(stones, np.uint64(1), game.connect)
        or _has_line(stones, np.uint64(game.rows), game.connect)
        or _has_line(stones, np.uint64(game.rows + 1), game.connect)
        or _has_line(stones, np.uint64(game.rows + 2), game.connect)
    )


@compiled
def _has_line(stones: np.uint64, direction: np.uint64, connect: int) -> bool:
    """Return whether there are `connect` stones spaced `direction` bits apart."""
    for _ in range(connect - 1):
        stones &= stones >> direction
    return bool(stones)


@compiled
def may_end(game: Any, state: State, player: int, plies: int) -> bool:
    """Return whether `player` can complete a line in one move or, with 2 plies, the other player one of theirs after it.

    Exact for the first; for the second, cells that are empty after any of the first moves count as empty at once.
    """
    bottoms = np.uint64(0)
    for column in range(game.columns):
        bottoms |= _ONE << np.uint64(column * (game.rows + 1))
    cells = ~(bottoms << np.uint64(game.rows))
    free = ((state[1] | state[2]) + bottoms) & cells
    if _can_complete(game, state[1 + player], free):
        return True
    return plies > 1 and _can_complete(game, state[2 - player], (free | free << _ONE) & cells)


@compiled
def _can_complete(game: Any, stones: np.uint64, free: np.uint64) -> bool:
    """Return whether `connect` cells in a line hold stones, but for one that is in `free`."""
    return (
        _line_but_one(stones, free, np.uint64(1), game.connect)
        or _line_but_one(stones, free, np.uint64(game.rows), game.connect)
        or _line_but_one(stones, free, np.uint64(game.rows + 1), game.connect)
        or _line_but_one(stones, free, np.uint64(game.rows + 2), game.connect)
    )


@compiled
def _line_but_one(stones: np.uint64, free: np.uint64, direction: np.uint64, connect: int) -> bool:
    """Return whether `connect` bits, `direction` apart, are set in `stones` but for one, which is set in `free`."""
    whole, but_one = stones, free  # the first bits of lines as long as the loop has come
    for _ in range(connect - 1):
        stones >>= direction
        free >>= direction
        whole, but_one = whole & stones, (but_one & stones) | (whole & free)
    return bool(but_one)


@compiled
def empty_cells(game: Any, state: State) -> np.uint64:
    """Return the cells without a stone."""
    column = (_ONE << np.uint64(game.rows)) - _ONE
    cells = np.uint64(0)
    for x in range(game.columns):
        cells |= column << np.uint64(x * (game.rows + 1))
    return cells & ~(state[1] | state[2])  # type: ignore[no-any-return]


@compiled
def threats(game: Any, state: State, player: int) -> np.uint64:
    """Return the empty cells, supported or not, on which a stone of `player` would complete a line."""
    stones = state[1 + player]
    found = _gaps(stones, np.uint64(1), game.connect) | _gaps(stones, np.uint64(game.rows), game.connect)
    found |= _gaps(stones, np.uint64(game.rows + 1), game.connect) | _gaps(stones, np.uint64(game.rows + 2), game.connect)
    return found & empty_cells(game, state)


@compiled
def _gaps(stones: np.uint64, direction: np.uint64, connect: int) -> np.uint64:
    """Return the bits that complete `connect` bits, `direction` apart, of which `stones` has all others."""
    found = np.uint64(0)
    below = ~np.uint64(0)  # the bits above as many stones as the loop has come
    lower = stones
    for before in range(connect):
        above = below
        upper = stones
        for _ in range(connect - 1 - before):
            upper >>= direction
            above &= upper
        found |= above
        lower <<= direction
        below &= lower
    return found


@compiled
def encode_stones(game: Any, state: State, viewer: int, out: np.ndarray) -> None:
    """Set the bits of the first two planes: stones of the viewer, stones of the other player."""
    mine = state[1 + viewer]
    taken = state[1] | state[2]
    height = np.uint64(game.rows + 1)
    column_mask = (_ONE << np.uint64(game.rows)) - _ONE
    last_row = (game.rows - 1) * game.columns
    for column in range(game.columns):
        put_column(out, last_row + column, game.columns, game.rows * game.columns, mine & column_mask, taken & column_mask)
        mine >>= height
        taken >>= height


@compiled
def key(game: Any, state: State) -> np.uint64:
    """Return a hash of player 0's stones with a marker on each column's lowest empty cell: no two positions collide."""
    bottoms = np.uint64(0)
    for column in range(game.columns):
        bottoms |= _ONE << np.uint64(column * (game.rows + 1))
    return mix64(state[1] | ((state[1] | state[2]) + bottoms))
