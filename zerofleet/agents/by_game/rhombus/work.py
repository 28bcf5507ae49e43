"""Buffers of the compiled search: settings, one frame per ply, moves, history and table.

Axes: D plies, S words of a state, L moves. Players and cells are numbered as in the game; frame i belongs to the position
`stack[i]`.
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
"""Move sets: all moves; no moves that end behind their start; no moves with a backward hop."""

_SETTINGS = np.dtype(
    [
        ("algorithm", np.int64),
        ("generation", np.int64),
        ("moves", np.int64),
        ("linear", np.int64),  # five features instead of cell values
        ("level", np.int64),  # value of a level in points
        ("sorted", np.int64),  # order by gain, after refutation moves and history
        ("table", np.int64),
        ("exact", np.int64),  # entries of the same depth only
        ("history", np.int64),
        ("exponent", np.int64),  # a cutoff at depth d adds 2 ** (d + exponent)
        ("reductions", np.int64),
        ("margin", np.int64),
        ("top", np.int64),  # 0: all moves
        ("all_ties", np.int64),  # prove the value of every best move of the root
    ]
)
_CONTROL = np.dtype(
    [
        ("nodes", np.int64),
        ("limit", np.int64),  # maximal number of nodes
        ("stopped", np.int64),  # set by the search at its limit, or by another thread
        ("stamp", np.int64),  # table entries with another stamp are ignored
        ("by_ply", np.int64),  # keys include the ply: the ply cap is within reach
        ("count", np.int64),  # moves of the root
        ("best", np.int64),
    ]
)
_FRAME = np.dtype(
    [
        ("key", np.uint64),
        ("jumps", np.uint64, (2, PIECES)),  # cells reachable by hops, by player and piece, where `known`
        ("cells", np.int64, (2, PIECES)),  # cells of the pieces
        ("known", np.int64, (2,)),  # one bit per piece: `jumps` is valid
        ("score", np.int64),  # values of player 0's pieces minus those of player 1's
        ("side", np.int64),  # player to move
        ("depth", np.int64),  # plies left to search
        ("refutation", np.int64),  # move to search first, -1 if unknown
        ("expected", np.int64),  # expected node type: see `search`
    ]
)


class Work(NamedTuple):
    """Buffers of one search at a time."""

    settings: np.ndarray  # _SETTINGS [1]
    control: np.ndarray  # _CONTROL [1]
    stack: np.ndarray  # uint64 [D + 1, S]
    frames: np.ndarray  # _FRAME [D + 1]
    moves: np.ndarray  # int64 [D + 1, L], packed as in `listing`
    values: np.ndarray  # int64 [L]: scores of the root's moves, exact for the best only
    history: np.ndarray  # int64 [2, 6561]
    table: np.ndarray  # ENTRY [2 ** bits]
    links: np.ndarray  # uint64 [81], scratch: hops from a cell, by bits of its word
    waiting: np.ndarray  # int64 [81], scratch: stack of cells to visit
    worth: np.ndarray  # int64 [2, 81]
    weights: np.ndarray  # int64 [5]
    scores: np.ndarray  # float32 [2], scratch


def make_work(game: ChineseCheckersRhombus, plies: int, bits: int, worth: np.ndarray, weights: np.ndarray) -> Work:
    """Allocate buffers for searches `plies` deep with a table of 2 ** bits entries; all settings are zero."""
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
    """Return an integer as int64: numba would compile another specialisation for narrow, unsigned or literal types."""
    return np.int64(number)  # type: ignore[return-value]


@lean
def climbs(moves: Any, side: int) -> int:
    """Return whether hops to higher levels are allowed, 0 or 1."""
    return wide(moves != MONO or side == 0)


@lean
def descends(moves: Any, side: int) -> int:
    """Return whether hops to lower levels are allowed, 0 or 1."""
    return wide(moves != MONO or side == 1)


@lean
def cell_of(bit: int, parity: int) -> int:
    """Return the cell of a bit in a word."""
    return 2 * bit + parity
