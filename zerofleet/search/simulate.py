"""One simulation: from the root down to a leaf, and what becomes of the leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import compiled
from games.randomness import gamma, gumbel
from zerofleet.search import cache as positions
from zerofleet.search.arena import Arena, Cache, Rows
from zerofleet.search.gumbel import gumbel_select
from zerofleet.search.puct import select_edge
from zerofleet.search.rules import Rules
from zerofleet.search.tree import (
    EXPANDED,
    NO_NODE,
    OVER,
    PENDING,
    ROOT,
    Tree,
    add_node,
    backup,
    take_flight,
)

__all__ = ["expand", "prepare_root", "simulate", "tree_of"]


@compiled
def tree_of(arena: Arena, g: int) -> Tree:
    """Return slot g's tree."""
    return Tree(arena.nodes[g], arena.edges[g], arena.states[g], arena.legal, arena.moved)


@compiled
def expand(tree: Tree, index: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Give a node its evaluation, and count it: policy float32 [L] over its edges, value float32 [P], mover first."""
    node = tree.nodes[index]
    players = value.shape[0]
    for i in range(players):
        node.value[(node.to_move + i) % players] = value[i]
    total = 0.0
    for i in range(node.edge_count):
        total += policy[i]
    for i in range(node.edge_count):
        edge = tree.edges[node.edge_start + i]
        edge.prior = policy[i] / total if total > 0.0 else 1.0 / node.edge_count
    node.kind = EXPANDED
    backup(tree.nodes, tree.edges, index, node.value)


@compiled
def prepare_root(arena: Arena, g: int, rules: Rules) -> None:
    """Mix noise into the root's priors (full searches), or draw its Gumbel variates."""
    slot = arena.slots[g]
    slot.prepared = 1
    root = arena.nodes[g, ROOT]
    count = root.edge_count
    if rules.gumbel:
        for i in range(count):
            arena.noise[g, i] = gumbel(arena.words[g]) if rules.gumbel_noise else 0.0
        return
    if not slot.full or rules.dirichlet_fraction <= 0.0 or count < 2:
        return
    alpha = rules.dirichlet_alpha if rules.dirichlet_alpha > 0.0 else 10.0 / count
    total = 0.0
    for i in range(count):
        arena.weights[i] = gamma(arena.words[g], alpha)
        total += arena.weights[i]
    if total <= 0.0:
        return
    for i in range(count):
        edge = arena.edges[g, root.edge_start + i]
        edge.prior = (1.0 - rules.dirichlet_fraction) * edge.prior + rules.dirichlet_fraction * arena.weights[i] / total


@compiled
def _choose_edge(arena: Arena, g: int, index: int, rules: Rules) -> int:
    """Return the edge to follow from an expanded node."""
    slot = arena.slots[g]
    if index == ROOT and rules.gumbel:
        root = arena.nodes[g, ROOT]
        considered = min(rules.gumbel_considered, root.edge_count)
        done = root.visits - 1 + root.flight
        wanted = arena.schedule[slot.full, considered, done]
        return gumbel_select(arena.nodes[g], arena.edges[g], arena.noise[g], rules, wanted)
    force = index == ROOT and slot.full and rules.forced_playouts > 0.0 and rules.dirichlet_fraction > 0.0
    return select_edge(arena.nodes[g], arena.edges[g], index, rules, force)


@compiled
def _child(game: Any, arena: Arena, g: int, index: int, e: int) -> int:
    """Return the node an edge leads to, made on the first visit."""
    edge = arena.edges[g, e]
    if edge.child == NO_NODE:
        slot = arena.slots[g]
        state = arena.states[g, slot.nodes]
        state[:] = arena.states[g, index]
        core.play(game, state, edge.action)
        edge.child = add_node(game, tree_of(arena, g), slot, index, e)
    return edge.child  # type: ignore[no-any-return]


@compiled
def simulate(game: Any, arena: Arena, g: int, rules: Rules, batch: tuple[Rows, Cache], used_rows: int) -> int:
    """Run one simulation of slot g. Returns the rows used afterwards, or -1 when the leaf is already waiting.

    An ended game or a cached position is backed up at once; any other leaf becomes a row of the batch.
    """
    nodes = arena.nodes[g]
    slot = arena.slots[g]
    index = ROOT
    while nodes[index].kind == EXPANDED:
        if index == ROOT and not slot.prepared:
            prepare_root(arena, g, rules)
        index = _child(game, arena, g, index, _choose_edge(arena, g, index, rules))
    if nodes[index].kind == PENDING:
        return -1
    arena.counters[0] += 1
    if nodes[index].kind == OVER:
        backup(nodes, arena.edges[g], index, nodes[index].value)
        return used_rows
    return _request(game, arena, g, index, batch, used_rows)


@compiled
def _request(game: Any, arena: Arena, g: int, index: int, batch: tuple[Rows, Cache], used_rows: int) -> int:
    """Answer a leaf from the cache, or let it wait for a row: another game's, or a new one."""
    rows, cache = batch
    slot = arena.slots[g]
    state = arena.states[g, index]
    entry = -1
    if cache.keys.shape[0] > 1:
        key = core.key(game, state)
        entry, known = positions.find(cache, key, slot.version)
        if known:
            arena.counters[1] += 1
            if cache.row[entry] == positions.FILLED:
                expand(tree_of(arena, g), index, cache.policy[entry], cache.value[entry])
            else:
                _wait(arena, g, index, cache.row[entry])
            return used_rows
        if cache.row[entry] >= 0:
            entry = -1  # the entry waits for another position; this one goes uncached
        else:
            cache.keys[entry] = key
            cache.versions[entry] = slot.version
            cache.row[entry] = used_rows
    node = arena.nodes[g, index]
    core.encode(game, state, node.to_move, rows.states[used_rows])
    legal = rows.legal[used_rows]
    legal[:] = -1
    for i in range(node.edge_count):
        legal[i] = arena.edges[g, node.edge_start + i].action
    rows.versions[used_rows] = slot.version
    rows.entries[used_rows] = entry
    _wait(arena, g, index, used_rows)
    return used_rows + 1


@compiled
def _wait(arena: Arena, g: int, index: int, row: int) -> None:
    """Note that a leaf waits for a row."""
    slot = arena.slots[g]
    arena.nodes[g, index].kind = PENDING
    arena.pending_nodes[g, slot.pending] = index
    arena.pending_rows[g, slot.pending] = row
    slot.pending += 1
    take_flight(arena.nodes[g], arena.edges[g], index)
