"""What the compiled search writes to: settings, a frame for each ply, moves, history and table.

Axes: D plies, S words of a state, L moves. Players and cells are numbered as the game does; a frame belongs to the position
in the row of `stack` with the same number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import CELLS, PIECES
from games.compiled import lean
from zerofleet.agents.by_game.rhombus.table import ENTRY

__all__ = [
    "ALPHA_BETA",
    "CHANNELS",
    "FLOOD",
    "FRESH",
    "FULL",
    "MINIMAX",
    "MONO",
    "NEGASCOUT",
    "NET",
    "UPWARD",
    "Work",
    "cell_of",
    "climbs",
    "descends",
    "make_work",
    "wide",
]

MINIMAX, ALPHA_BETA, NEGASCOUT = range(3)
FLOOD, FRESH, UPWARD, CHANNELS = range(4)
FULL, NET, MONO = range(3)
"""Moves that are searched: all; none that ends behind its start; none with a hop backwards."""

_SETTINGS = np.dtype(
    [
        ("algorithm", np.int64),
        ("generation", np.int64),
        ("moves", np.int64),
        ("linear", np.int64),  # five features instead of values of cells
        ("level", np.int64),  # what a level is worth in points
        ("sorted", np.int64),  # by gain, where nothing better is known
        ("table", np.int64),
        ("exact", np.int64),  # entries of the same depth only
        ("history", np.int64),
        ("exponent", np.int64),  # a cut of depth d adds 2 ** (d + exponent)
        ("reductions", np.int64),
        ("margin", np.int64),
        ("top", np.int64),  # 0: all moves
        ("all_ties", np.int64),  # prove the value of every best move of the root
    ]
)
_CONTROL = np.dtype(
    [
        ("nodes", np.int64),
        ("limit", np.int64),  # of nodes
        ("stopped", np.int64),  # set by the search at its limit, or from outside
        ("stamp", np.int64),  # entries of the table with another stamp are not there
        ("by_ply", np.int64),  # positions differ by their ply: the last ply of the game is in sight
        ("count", np.int64),  # moves of the root
        ("best", np.int64),
    ]
)
_FRAME = np.dtype(
    [
        ("key", np.uint64),
        ("jumps", np.uint64, (2, PIECES)),  # cells that hops lead to, by player and piece, where `known`
        ("cells", np.int64, (2, PIECES)),  # where the pieces stand
        ("known", np.int64, (2,)),  # one bit a piece
        ("score", np.int64),  # values of player 0's pieces less those of player 1's
        ("side", np.int64),  # who is to move
        ("depth", np.int64),  # plies left to search
        ("refutation", np.int64),  # the move to try first, -1 if none is known
        ("expected", np.int64),  # kind of node: see `search`
    ]
)


class Work(NamedTuple):
    """The room of one search at a time."""

    settings: np.ndarray  # _SETTINGS [1]
    control: np.ndarray  # _CONTROL [1]
    stack: np.ndarray  # uint64 [D + 1, S]
    frames: np.ndarray  # _FRAME [D + 1]
    moves: np.ndarray  # int64 [D + 1, L], as `ordering` packs them
    values: np.ndarray  # int64 [L]: what the root's moves are worth, or less than the best
    history: np.ndarray  # int64 [2, 6561]
    table: np.ndarray  # ENTRY [2 ** bits]
    links: np.ndarray  # uint64 [81], scratch: hops from a cell, by bits of its word
    waiting: np.ndarray  # int64 [81], scratch: cells still to be looked at
    worth: np.ndarray  # int64 [2, 81]
    weights: np.ndarray  # int64 [5]
    scores: np.ndarray  # float32 [2], scratch


def make_work(game: ChineseCheckersRhombus, plies: int, bits: int, worth: np.ndarray, weights: np.ndarray) -> Work:
    """Return room for searches `plies` deep with a table of 2 ** bits entries; all settings are zero."""
    spec = game.spec()
    return Work(
        settings=np.zeros(1, dtype=_SETTINGS).view(np.recarray),
        control=np.zeros(1, dtype=_CONTROL).view(np.recarray),
        stack=np.zeros((plies + 1, spec.state_size), dtype=np.uint64),
        frames=np.zeros(plies + 1, dtype=_FRAME).view(np.recarray),
        moves=np.zeros((plies + 1, spec.max_legal), dtype=np.int64),
        values=np.zeros(spec.max_legal, dtype=np.int64),
        history=np.zeros((2, CELLS * CELLS), dtype=np.int64),
        table=np.zeros(1 << bits, dtype=ENTRY).view(np.recarray),
        links=np.zeros(CELLS, dtype=np.uint64),
        waiting=np.zeros(CELLS, dtype=np.int64),
        worth=worth,
        weights=weights,
        scores=np.zeros(2, dtype=np.float32),
    )


@lean
def wide(number: Any) -> int:
    """Return an integer as 64 bits: narrow, unsigned and literal ones are types of their own, compiled for once more."""
    return np.int64(number)  # type: ignore[return-value]


@lean
def climbs(moves: Any, side: int) -> int:
    """Return whether a hop may lead to higher levels, 0 or 1."""
    return wide(moves != MONO or side == 0)


@lean
def descends(moves: Any, side: int) -> int:
    """Return whether a hop may lead to lower levels, 0 or 1."""
    return wide(moves != MONO or side == 1)


@lean
def cell_of(bit: int, parity: int) -> int:
    """Return the cell that a bit of a word stands for."""
    return 2 * bit + parity
