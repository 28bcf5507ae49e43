"""Pool: the few best moves of a position, from which a player chooses; compiled."""

from __future__ import annotations

import numpy as np

from games.compiled import lean

__all__ = ["best_first"]


@lean
def best_first(actions: np.ndarray, chances: np.ndarray, count: int, size: int) -> int:
    """Bring the moves of highest value to the front of both lists, best first, and return their number: `size` or fewer.

    Equal values keep their order. The order of the other moves, among the first `count`, is lost.

    Args:
        actions: int16 [L].
        chances: float64 [L], value of each action.
        count: Number of moves.
        size: Largest number of moves wanted.
    """
    kept = min(size, count)
    for rank in range(kept):
        best = rank
        for i in range(rank + 1, count):
            if chances[i] > chances[best]:
                best = i
        action, chance = actions[best], chances[best]
        for i in range(best, rank, -1):  # a rotation, so that equal values keep their order
            actions[i], chances[i] = actions[i - 1], chances[i - 1]
        actions[rank], chances[rank] = action, chance
    return kept
