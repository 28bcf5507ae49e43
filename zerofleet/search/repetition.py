"""Repetition cutting: a recurring position is a leaf with its current scores.

    path       A -> B -> C -> A      the second A has the value `standing(A)`: realised scores, no estimate of the future
    history    P occurred earlier in the game and recurs below the root: the same

Positions are compared with their player to move (`games.core.repetition_key`). Source: Schulte 2021, section 4.1, where the
realised scores replace the network's estimate; in self-play the history of the game counts as well, so that no game cycles
without end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import lean
from zerofleet.search.compiled_settings import CUT_HISTORY, CompiledSettings
from zerofleet.search.tree import OVER, ROOT, Tree

__all__ = ["cut_repetition", "remember"]


@lean
def cut_repetition(game: Any, tree: Tree, slot: Any, settings: CompiledSettings, index: int) -> None:
    """Set the key of a new node, the last of its tree, and make it a leaf if its position recurs."""
    node = tree.nodes[index]
    node.key = core.repetition_key(game, tree.states[index])
    if node.kind == OVER:
        return
    if _on_path(game, tree, node) or (settings.repetition == CUT_HISTORY and _in_past(tree.past, slot.ply, node.key)):
        node.kind = OVER
        slot.edges -= node.edge_count
        node.edge_count = 0
        core.standing(game, tree.states[index], node.value)


@lean
def _on_path(game: Any, tree: Tree, node: Any) -> bool:
    """Return whether the position of a node occurs on the path from the root to it."""
    index = node.parent
    while index != ROOT:
        if tree.nodes[index].key == node.key:
            return True
        index = tree.nodes[index].parent
    return core.repetition_key(game, tree.states[ROOT]) == node.key  # type: ignore[no-any-return]


@lean
def _in_past(past: np.ndarray, plies: int, key: np.uint64) -> bool:
    """Return whether a key is among the first `plies` keys of `past`."""
    found = False
    for ply in range(plies):
        found |= past[ply] == key
    return found


@lean
def remember(game: Any, state: np.ndarray, past: np.ndarray, ply: int, settings: CompiledSettings) -> None:
    """Store the key of the position before the move of a ply."""
    if settings.repetition == CUT_HISTORY:
        past[ply] = core.repetition_key(game, state)
