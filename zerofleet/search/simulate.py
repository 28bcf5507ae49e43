"""Parts of a simulation: descent from the root to a leaf, request, evaluation and expansion of the leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import inlined, lean
from games.kit.randomness import gamma, gumbel
from zerofleet.search import cache as positions
from zerofleet.search.arena import Arena, Cache, Rows
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.gumbel import gumbel_select, logit
from zerofleet.search.proof import moves_left
from zerofleet.search.puct import select_edge
from zerofleet.search.tree import (
    EXPANDED,
    NO_NODE,
    PENDING,
    ROOT,
    Tree,
    add_node,
    backup,
    copy,
    release_flight,
    take_flight,
    wide,
)

__all__ = [
    "ANSWERED",
    "all_answered",
    "descend",
    "evaluate",
    "expand",
    "expand_pending",
    "has_budget",
    "new_child",
    "next_edge",
    "prepare_root",
    "request",
    "tree_of",
]

ANSWERED = -1  # row of a pending leaf that is already evaluated


@inlined
def tree_of(arena: Arena, g: int) -> Tree:
    """Return slot g's tree as views; inlined, so that a caller creates only those that it uses."""
    return Tree(
        arena.nodes[g],
        arena.edges[g],
        arena.states[g],
        arena.past[g],
        arena.bias[g],
        arena.words[g],
        arena.pending_nodes[g],
        arena.pending_rows[g],
        arena.legal,
        arena.moved,
        arena.weights,
    )


@inlined
def evaluate(nodes: Any, edges: Any, index: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Write the evaluation of a node: policy float32 [L] over its edges, value float32 [P], mover first."""
    node = nodes[index]
    players = value.shape[0]
    seat = wide(node.to_move)
    for i in range(players):
        node.value[seat] = value[i]
        seat = seat + 1 if seat + 1 < players else 0
    total = 0.0
    for i in range(node.edge_count):
        total += policy[i]
    for i in range(node.edge_count):
        edge = edges[node.edge_start + i]
        edge.prior = policy[i] / total if total > 0.0 else 1.0 / node.edge_count


@inlined
def expand(nodes: Any, edges: Any, index: int) -> None:
    """Mark an evaluated node as expanded and back up its value."""
    node = nodes[index]
    node.kind = EXPANDED
    backup(nodes, edges, index, node.value)


@inlined
def expand_pending(arena: Arena, g: int) -> None:
    """Expand all pending leaves of slot g, in the order of selection; all must be evaluated."""
    slot, nodes, edges = arena.slots[g], arena.nodes[g], arena.edges[g]
    for i in range(slot.pending):
        index = wide(arena.pending_nodes[g, i])
        release_flight(nodes, edges, index)
        expand(nodes, edges, index)
    slot.pending = 0


@inlined
def all_answered(arena: Arena, g: int) -> bool:
    """Return whether the cache answered every pending leaf of slot g."""
    asked = 0
    for i in range(arena.slots[g].pending):
        asked += arena.pending_rows[g, i] != ANSWERED
    return asked == 0


@lean
def prepare_root(tree: Tree, slot: Any, settings: CompiledSettings) -> None:
    """Mix noise into the root's priors (full searches), or draw the Gumbel variates of its edges and add their logits."""
    slot.prepared = 1
    root = tree.nodes[ROOT]
    count = root.edge_count
    if settings.gumbel:
        for i in range(count):
            variate = gumbel(tree.word) if settings.gumbel_noise else 0.0
            tree.bias[i] = variate + logit(tree.edges[root.edge_start + i].prior)
        slot.considered = min(settings.gumbel_considered, moves_left(tree.nodes, tree.edges))
        return
    if not slot.full or settings.dirichlet_fraction <= 0.0 or count < 2:
        return
    alpha = settings.dirichlet_alpha if settings.dirichlet_alpha > 0.0 else 10.0 / count
    total = 0.0
    for i in range(count):
        tree.weights[i] = gamma(tree.word, alpha)
        total += tree.weights[i]
    if total <= 0.0:
        return
    for i in range(count):
        edge = tree.edges[root.edge_start + i]
        edge.prior = (1.0 - settings.dirichlet_fraction) * edge.prior + settings.dirichlet_fraction * tree.weights[i] / total


@inlined
def has_budget(slot: Any, root: Any) -> bool:
    """Return whether the visits and pending leaves below a root are fewer than the budget of its search."""
    return root.visits - 1 + root.flight < slot.budget  # type: ignore[no-any-return]


@inlined
def next_edge(tree: Tree, slot: Any, settings: CompiledSettings, arena: Arena, index: int) -> int:
    """Return the edge that the search selects at an expanded node; the first selection of a move at the root sets its noise."""
    force = False
    if index == ROOT:
        if not slot.prepared:
            prepare_root(tree, slot, settings)
        if settings.gumbel:
            root = tree.nodes[ROOT]
            wanted = wide(arena.schedule[slot.full, slot.considered, root.visits - 1 + root.flight])
            return gumbel_select(tree.nodes, tree.edges, tree.bias, settings, wanted)
        force = slot.full and settings.forced_playouts > 0.0 and settings.dirichlet_fraction > 0.0
    return select_edge(tree.nodes, tree.edges, index, settings, arena.exploration, force)


@inlined
def new_child(game: Any, tree: Tree, slot: Any, index: int, e: int) -> int:
    """Return a new node for an edge followed for the first time."""
    state = tree.states[slot.nodes]
    copy(tree.states[index], state)
    core.play(game, state, wide(tree.edges[e].action))
    child = add_node(game, tree, slot, index, e)
    tree.edges[e].child = child
    return child


@inlined
def descend(game: Any, tree: Tree, slot: Any, settings: CompiledSettings, arena: Arena) -> int:
    """Descend from the node reached so far, mostly the root, to one that is not expanded, created if necessary.

    Return its index; the next descent begins at the root.
    """
    nodes, edges = tree.nodes, tree.edges
    index = wide(slot.reached)
    slot.reached = ROOT
    while nodes[index].kind == EXPANDED:
        e = next_edge(tree, slot, settings, arena, index)
        child = edges[e].child
        index = child if child != NO_NODE else new_child(game, tree, slot, index, e)
    return index


@inlined
def request(game: Any, tree: Tree, slot: Any, index: int, batch: tuple[Rows, Cache], used_rows: int) -> int:
    """Assign a leaf to a row of the batch, new or shared with another game, or evaluate it from the cache.

    Return the number of rows used. With several leaves per game a cached leaf stays pending until the others are evaluated:
    the search must not depend on the content of the cache.
    """
    rows, cache = batch
    entry = -1
    if cache.keys.shape[0] > 1:
        key = core.key(game, tree.states[index])
        entry, known = positions.find(cache, key, slot.version)
        if known:
            if cache.row[entry] == positions.FILLED:
                evaluate(tree.nodes, tree.edges, index, cache.policy[entry], cache.value[entry])
                if tree.pending_nodes.shape[0] == 1:
                    expand(tree.nodes, tree.edges, index)
                else:
                    _wait(tree, slot, index, wide(ANSWERED))
            else:
                _wait(tree, slot, index, wide(cache.row[entry]))
            return used_rows
        if cache.row[entry] >= 0:
            entry = -1  # the entry is reserved for another position; this one is not cached
        else:
            cache.keys[entry] = key
            cache.versions[entry] = slot.version
            cache.row[entry] = used_rows
    node = tree.nodes[index]
    core.encode(game, tree.states[index], wide(node.to_move), rows.states[used_rows])
    for i in range(rows.legal.shape[1]):
        rows.legal[used_rows, i] = tree.edges[node.edge_start + i].action if i < node.edge_count else -1
    rows.versions[used_rows] = slot.version
    rows.entries[used_rows] = entry
    _wait(tree, slot, index, used_rows)
    return used_rows + 1


@inlined
def _wait(tree: Tree, slot: Any, index: int, row: int) -> None:
    """Mark a leaf as pending on a row, or only on the game's other leaves (`ANSWERED`)."""
    tree.nodes[index].kind = PENDING
    tree.pending_nodes[slot.pending] = index
    tree.pending_rows[slot.pending] = row
    slot.pending += 1
    take_flight(tree.nodes, tree.edges, index)
