"""Transposition table of a search.

Positions recur in Abalone, and different move orders reach them. An entry is used only at exactly the depth of its search,
so that the table changes no value; entries of other depths supply the move to search first. Positions are identified by
marbles and player to move (`games.core.repetition_key`), without the number of plies, except where the ply cap is within
reach of the search: there `search` mixes it into the key.

A thread reuses one table for successive searches. Each search mixes its own stamp into its keys, so that stale entries never
match and the table need not be cleared.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from games.compiled import lean

__all__ = ["EXACT", "LOWER", "NOTHING", "UPPER", "Table", "move_of", "recall", "remember", "table_of_thread"]

SLOTS = 1 << 20
"""Number of slots, 24 MB a thread; untouched pages are not resident."""
NOTHING = -(1 << 62)
"""No value; below all values."""
UPPER, EXACT, LOWER = 0, 1, 2
"""Type of a value: upper bound, exact, lower bound."""
_MOVE_BITS, _BOUND_BITS = 11, 2  # layout of a note: move, type of bound, depth in plies
_MOVE, _BOUND = (1 << _MOVE_BITS) - 1, (1 << _BOUND_BITS) - 1


class Table(NamedTuple):
    """Slots indexed by the low bits of keys; the latest entry replaces."""

    keys: np.ndarray  # uint64 [SLOTS]
    values: np.ndarray  # int64 [SLOTS], for the player to move
    notes: np.ndarray  # int64 [SLOTS]


class _Own(threading.local):
    """Table of a thread and the number of its searches."""

    def __init__(self) -> None:
        self.table = Table(*(np.zeros(SLOTS, dtype=kind) for kind in (np.uint64, np.int64, np.int64)))
        self.searches = 0


_OWN = _Own()


def table_of_thread() -> tuple[Table, int]:
    """Return the table of this thread and the stamp of a new search, positive."""
    _OWN.searches += 1
    return _OWN.table, _OWN.searches


@lean
def recall(table: Table, key: np.uint64, depth: int, alpha: int, beta: int) -> int:
    """Return the stored value of a position at `depth` plies if it decides the window, else NOTHING."""
    slot = int(np.int64(key)) & (SLOTS - 1)
    note = table.notes[slot]
    if table.keys[slot] != key or note >> (_MOVE_BITS + _BOUND_BITS) != depth:
        return NOTHING
    value, bound = table.values[slot], (note >> _MOVE_BITS) & _BOUND
    if bound == EXACT or (bound == LOWER and value >= beta) or (bound == UPPER and value <= alpha):
        return value  # type: ignore[no-any-return]
    return NOTHING


@lean
def move_of(table: Table, key: np.uint64) -> int:
    """Return the best or cutoff move of a position, from a search to any depth; -1 if there is none."""
    slot = int(np.int64(key)) & (SLOTS - 1)
    return table.notes[slot] & _MOVE if table.keys[slot] == key else -1


@lean
def remember(table: Table, key: np.uint64, depth: int, value: int, bound: int, move: int) -> None:
    """Store the value of a position at `depth` plies and its best move."""
    slot = int(np.int64(key)) & (SLOTS - 1)
    table.keys[slot] = key
    table.values[slot] = value
    table.notes[slot] = (depth << (_MOVE_BITS + _BOUND_BITS)) | (bound << _MOVE_BITS) | move
