"""Slots of a block side by side, so that the processor waits for the memory of all of them at once.

A path through a tree is a chain of loads, each of which needs the one before: a node, its edges, the child that they select.
In a block that is larger than the processor's cache, most of them wait for memory. The slots of a window take each level of
their paths together, and ask for what the next level needs, so that the waits of one slot pass during the work of the others:

    slot 0   root . . edges . . child . .            one slot after the other
    slot 1                                root . .

    slot 0   root . . . . edges . . . . child        a window
    slot 1        root . . . . edges . . . . child

Trees do not depend on it: slots share nothing but scratch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import inlined
from games.prefetch import prefetch
from zerofleet.search.arena import SEARCHING, Arena
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.simulate import has_budget, new_child, next_edge, tree_of
from zerofleet.search.tree import EXPANDED, NO_NODE, ROOT, wide

__all__ = ["CACHE_BYTES", "WINDOW", "descend_window", "exceeds_cache", "load_ahead", "load_paths"]

WINDOW = 8
"""Slots that descend side by side. Of 4, 8 and 16, 8 was the fastest with 4,096 games (docs/results/speed_search.md)."""

CACHE_BYTES = 8 << 20
"""Allocated trees of a block that descends in windows: with 400 simulations a move, more than 64 games of Connect Four."""

_ALONG, _AT_END = -1, -2  # states of a descent in place of an edge to a new node: on its way, ended at a node

_LINE = 3  # edges in a line of the cache, about: those of two players are 28 bytes
_NEAR = 3 * _LINE  # edges to ask for: the processor itself goes on to the lines behind them


@inlined
def exceeds_cache(arena: Arena) -> bool:
    """Return whether the trees of a block exceed the caches of a core, so that windows take less time than they cost."""
    return arena.nodes.nbytes + arena.edges.nbytes > CACHE_BYTES


@inlined
def _load_edges(edges: np.ndarray, first: int) -> None:
    """Ask for the edges of a node from the first one on."""
    for e in range(0, _NEAR, _LINE):
        prefetch(edges, first + e)


@inlined
def load_ahead(arena: Arena, g: int) -> None:
    """Ask for what the slots after g need first, so that it is in the processor's cache at their turn.

    That is, of the second the root and the last node, which is the pending leaf, and of the next the leaf's parent.
    """
    slots = arena.slots.shape[0]
    if g + 2 < slots:
        slot, nodes, edges = arena.slots[g + 2], arena.nodes[g + 2], arena.edges[g + 2]
        prefetch(nodes, wide(ROOT))
        prefetch(nodes, wide(slot.nodes) - 1)
        _load_edges(edges, wide(0))
        _load_edges(edges, wide(slot.edges) - 1 - (_NEAR - _LINE))  # the last of them
    if g + 1 < slots:
        leaf = arena.nodes[g + 1, arena.slots[g + 1].nodes - 1]
        prefetch(arena.nodes[g + 1], wide(leaf.parent))
        prefetch(arena.edges[g + 1], wide(leaf.parent_edge))


@inlined
def load_paths(arena: Arena, first: int, after: int) -> None:
    """Ask for the path from the pending leaf, the first one, of each slot from `first` to before `after`, to its root."""
    going = 0
    for g in range(first, after):
        slot = arena.slots[g]
        slot.reached = arena.pending_nodes[g, 0] if slot.pending > 0 else ROOT
        going += slot.reached != ROOT
    while going > 0:
        going = 0
        for g in range(first, after):
            slot, nodes = arena.slots[g], arena.nodes[g]
            if slot.reached != ROOT:
                node = nodes[slot.reached]
                prefetch(nodes, wide(node.parent))
                prefetch(arena.edges[g], wide(node.parent_edge))
                slot.reached = node.parent
                going += slot.reached != ROOT


@inlined
def descend_window(game: Any, settings: CompiledSettings, arena: Arena, first: int, after: int) -> None:
    """Make the descents of the next simulations of the slots from `first` to before `after` that are ready for one.

    `descend` then finds the node where each ended, created if necessary, in `slot.reached`.
    """
    going = 0
    for g in range(first, after):
        slot = arena.slots[g]
        slot.next_edge = _ALONG if _is_ready(settings, arena, g) else _AT_END
        going += slot.next_edge == _ALONG
    while going > 0:
        for g in range(first, after):
            slot, edges = arena.slots[g], arena.edges[g]
            if slot.next_edge == _ALONG:
                _load_edges(edges, wide(arena.nodes[g, slot.reached].edge_start))
        going = 0
        for g in range(first, after):
            if arena.slots[g].next_edge == _ALONG:
                _take_level(game, settings, arena, g)
                going += arena.slots[g].next_edge == _ALONG
    for g in range(first, after):
        slot = arena.slots[g]
        if slot.next_edge >= 0:
            slot.reached = new_child(game, tree_of(arena, g), slot, wide(slot.reached), wide(slot.next_edge))


@inlined
def _is_ready(settings: CompiledSettings, arena: Arena, g: int) -> bool:
    """Return whether the next work of slot g is a simulation from an expanded root."""
    slot, root = arena.slots[g], arena.nodes[g, ROOT]
    if slot.status != SEARCHING or slot.pending > 0 or root.kind != EXPANDED:
        return False
    return (slot.looked or not settings.proofs) and has_budget(slot, root)


@inlined
def _take_level(game: Any, settings: CompiledSettings, arena: Arena, g: int) -> None:
    """Take one level of the descent of slot g, and ask for what the next one, or the new node at its end, needs."""
    slot, tree = arena.slots[g], tree_of(arena, g)
    index = wide(slot.reached)
    if tree.nodes[index].kind != EXPANDED:
        slot.next_edge = _AT_END
        return
    edge = next_edge(tree, slot, settings, arena, index)
    child = wide(tree.edges[edge].child)
    if child != NO_NODE:
        slot.reached = child
        prefetch(tree.nodes, child)
        return
    slot.next_edge = edge
    prefetch(tree.states[index], wide(0))
    prefetch(tree.states[slot.nodes], wide(0))
    prefetch(tree.nodes, wide(slot.nodes))
    _load_edges(tree.edges, wide(slot.edges))
