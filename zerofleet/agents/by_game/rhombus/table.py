"""Transposition table with 64-bit Zobrist keys (Zobrist 1970).

The low bits of a key are the index of its entry; the full key is stored and verified. An entry has the score with its type of
bound and the refutation or best move. Scores of won games count plies from the entry's position, not from the root.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.chinese_checkers.rhombus.board import CELLS
from games.compiled import lean
from games.kit.randomness import mix64
from zerofleet.agents.by_game.rhombus.evaluation import WIN

__all__ = [
    "AT_LEAST",
    "AT_MOST",
    "ENTRY",
    "EXACT",
    "NO_MOVE",
    "TURN",
    "ZOBRIST",
    "key_of",
    "ply_key",
    "probe",
    "score_of",
    "store",
]

EXACT, AT_LEAST, AT_MOST = range(3)
NO_MOVE = -1

ENTRY = np.dtype(
    [
        ("key", np.uint64),
        ("score", np.int32),
        ("stamp", np.int32),
        ("move", np.int16),
        ("depth", np.int8),
        ("bound", np.int8),
    ],
    align=True,
)

_SEED = 2017
_DECIDED = WIN - 1_000


def _random_words(first: int, count: int) -> np.ndarray:
    plain: Any = getattr(mix64, "py_func", mix64)  # interpreted, since a first call at import would load the compiler
    words: np.ndarray = plain(np.arange(count, dtype=np.uint64) + np.uint64(_SEED * 1_000_003 + first))
    return words


ZOBRIST = _random_words(0, 2 * CELLS).reshape(2, CELLS)
"""uint64 [2, 81]: by player and cell."""
TURN = _random_words(2 * CELLS, 1)[0]
"""Key of player 1 to move."""


@lean
def key_of(cells: np.ndarray, side: int) -> np.uint64:
    """Return the key of a position from scratch.

    Args:
        cells: int64 [2, 10], cells of the pieces.
        side: Player to move.
    """
    key = TURN if side == 1 else np.uint64(0)
    for player in range(2):
        for slot in range(cells.shape[1]):
            key ^= ZOBRIST[player, cells[player, slot]]
    return key


@lean
def ply_key(ply: int) -> np.uint64:
    """Return a key that distinguishes the same position on different plies of the search."""
    return mix64(np.uint64(ply) + TURN)


@lean
def probe(table: np.ndarray, key: np.uint64, stamp: int) -> int:
    """Return the index of a key's entry, or -1 if there is none."""
    index = int(np.int64(key & np.uint64(table.shape[0] - 1)))
    entry = table[index]
    return index if entry.key == key and entry.stamp == stamp else -1


@lean
def store(table: np.ndarray, key: np.uint64, stamp: Any, found: tuple[int, int, int, int], ply: int) -> None:
    """Store a result, replacing the entry of the same index.

    Args:
        table: ENTRY [2 ** bits].
        key: Key of the position.
        stamp: Stamp of the search.
        found: Score, type of bound, depth and move.
        ply: Distance from the root.
    """
    score, bound, depth, move = found
    if score > _DECIDED:
        score += ply
    elif score < -_DECIDED:
        score -= ply
    entry = table[int(np.int64(key & np.uint64(table.shape[0] - 1)))]
    entry.key = key
    entry.score = score
    entry.stamp = stamp
    entry.move = move
    entry.depth = depth
    entry.bound = bound


@lean
def score_of(entry: Any, ply: int) -> int:
    """Return the score of an entry, with wins counted from the root."""
    score = int(np.int64(entry.score))  # 64 bits: later sums may not fit into 32
    if score > _DECIDED:
        return score - ply
    if score < -_DECIDED:
        return score + ply
    return score
