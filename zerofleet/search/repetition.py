"""Positions that recur: where a search would run in circles it stops, and takes the scores as they stand.

    path       A -> B -> C -> A      the second A is worth `standing(A)`: no estimate, nobody is credited with anything to come
    history    the game passed P, and below the root P is reached again: likewise

The position counts with its player to move (`games.core.repetition_key`). Source: Schulte 2021, section 4.1, after which
the realised scores take the place of the network's estimate; in self-play the game's own history counts as well, so that
no game goes round for ever.
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
    """Give a new node its key, and end the search there if its position has been before; it is the last of its tree."""
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
    """Return whether the position of a node stands on the way from the root to it."""
    index = node.parent
    while index != ROOT:
        if tree.nodes[index].key == node.key:
            return True
        index = tree.nodes[index].parent
    return core.repetition_key(game, tree.states[ROOT]) == node.key  # type: ignore[no-any-return]


@lean
def _in_past(past: np.ndarray, plies: int, key: np.uint64) -> bool:
    """Return whether a key is among the first `plies` of the past."""
    found = False
    for ply in range(plies):
        found |= past[ply] == key
    return found


@lean
def remember(game: Any, state: np.ndarray, past: np.ndarray, ply: int, settings: CompiledSettings) -> None:
    """Note the position before the move of a ply as passed."""
    if settings.repetition == CUT_HISTORY:
        past[ply] = core.repetition_key(game, state)
