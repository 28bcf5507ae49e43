"""The transposition table: what earlier parts of the same search found out about a position.

Positions recur in Abalone, and other orders of moves lead to them. An entry answers only for the number of plies that it was
searched for, so that the table changes no value; from other depths it tells the move to try first. Positions are told apart
by marbles and player to move (`games.core.repetition_key`); how many plies were played is left out, save where the cap on the
length of the game is within reach of the search: there `search` mixes it into the key.

One table serves one search after another of the same thread. Each search has a stamp of its own mixed into its keys, so what
earlier ones left is never found and nothing has to be cleared.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from games.compiled import lean

__all__ = ["EXACT", "LOWER", "NOTHING", "UPPER", "Table", "move_of", "recall", "remember", "table_of_thread"]

SLOTS = 1 << 20
"""24 MB a thread; memory that no search has reached is not taken."""
NOTHING = -(1 << 62)
"""No value; below all."""
UPPER, EXACT, LOWER = 0, 1, 2
"""What a value says: at most so much, exactly so much, at least so much."""
_MOVE_BITS, _BOUND_BITS = 11, 2  # of a note: the move, the kind of bound, the plies it was searched for
_MOVE, _BOUND = (1 << _MOVE_BITS) - 1, (1 << _BOUND_BITS) - 1


class Table(NamedTuple):
    """A slot for each remainder of a key; the latest entry stays."""

    keys: np.ndarray  # uint64 [SLOTS]
    values: np.ndarray  # int64 [SLOTS], for the player to move
    notes: np.ndarray  # int64 [SLOTS]


class _Own(threading.local):
    """The table of a thread, and how many searches it has served."""

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
    """Return the value of a position searched for `depth` plies if it settles the window, else NOTHING."""
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
    """Return the move that was best or cut when the position was searched, to whichever depth; -1 if it was not."""
    slot = int(np.int64(key)) & (SLOTS - 1)
    return table.notes[slot] & _MOVE if table.keys[slot] == key else -1


@lean
def remember(table: Table, key: np.uint64, depth: int, value: int, bound: int, move: int) -> None:
    """Keep what a position is worth, searched for `depth` plies, and its best move."""
    slot = int(np.int64(key)) & (SLOTS - 1)
    table.keys[slot] = key
    table.values[slot] = value
    table.notes[slot] = (depth << (_MOVE_BITS + _BOUND_BITS)) | (bound << _MOVE_BITS) | move
