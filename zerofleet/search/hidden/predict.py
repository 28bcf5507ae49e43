"""Search with predicted opponents: the tree uses the network's point prediction of their actions.

    node, the searcher's view ──> the network: policy, value, and the likelihood of each action for the opponents
      │ once per node: the likeliest distinct plays consistent with the searcher's view (`games.core.foresee`)
      ▼
    child of an action: the round is played with these plays (`games.core.play_foreseen`); the searcher is to move again

All children of a node share its prediction, without chance nodes. Every node is a decision of the same player, so values are
that player's at every level and are never negated. Source: the search of a Take 6! player in "Comparing the viability of
AlphaZero in games with perfect, imperfect, and no information".

The true hands are not used: the tree is built on one determinisation of the searcher's view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import lean
from zerofleet.search.arena import SEARCHING, Arena, History, Rows
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.hidden.worlds import Worlds, ask, draw_seed
from zerofleet.search.kernel import settle
from zerofleet.search.simulate import evaluate, expand, next_edge, tree_of
from zerofleet.search.tree import EXPANDED, NO_NODE, OVER, ROOT, add_node, backup, copy, wide

__all__ = ["absorb", "advance"]


@lean
def _new_child(game: Any, arena: Arena, g: int, worlds: Worlds, index: int, e: int) -> int:
    """Return a new node for an edge of node `index` followed for the first time."""
    tree, slot = tree_of(arena, g), arena.slots[g]
    state = tree.states[slot.nodes]
    copy(worlds.states[g] if index == ROOT else tree.states[index], state)  # the tree's root state is the true one
    core.play_foreseen(game, state, wide(tree.edges[e].action), worlds.plays[g, index])
    child = add_node(game, tree, slot, index, e)
    tree.edges[e].child = child
    return child


@lean
def _descend(game: Any, settings: CompiledSettings, arena: Arena, g: int, worlds: Worlds) -> int:
    """Descend from the root to a node that is not expanded, created if necessary; return its index."""
    tree, slot = tree_of(arena, g), arena.slots[g]
    nodes, edges = tree.nodes, tree.edges
    index = wide(ROOT)
    while nodes[index].kind == EXPANDED:
        e = next_edge(tree, slot, settings, arena, index)
        child = edges[e].child
        index = child if child != NO_NODE else _new_child(game, arena, g, worlds, index, e)
    return index


@lean
def _collect(game: Any, settings: CompiledSettings, arena: Arena, g: int, batch: tuple[Rows, Worlds], row: int) -> bool:
    """Run simulations of slot g until one needs the network (true) or the budget is reached (false)."""
    rows, worlds = batch
    slot = arena.slots[g]
    tree = tree_of(arena, g)
    root = tree.nodes[ROOT]
    viewer = wide(root.to_move)
    if slot.pending:  # its row is evaluated
        slot.pending = 0
        leaf = wide(tree.pending_nodes[0])
        likelihood = worlds.likelihood[tree.pending_rows[0]]
        state = worlds.states[g] if leaf == ROOT else tree.states[leaf]
        core.foresee(game, state, viewer, likelihood, worlds.plays[g, leaf])
        expand(tree.nodes, tree.edges, leaf)
    while root.visits - 1 < slot.budget:
        arena.counters[0] += 1
        if root.kind != EXPANDED:
            seed = draw_seed(tree.word)
            core.determinise(game, tree.states[ROOT], viewer, seed, worlds.states[g])
        index = _descend(game, settings, arena, g, worlds)
        if tree.nodes[index].kind == OVER:
            backup(tree.nodes, tree.edges, index, tree.nodes[index].value)
            continue
        state = worlds.states[g] if index == ROOT else tree.states[index]
        ask(game, state, tree, slot, rows, row)
        rows.versions[row] = slot.version
        tree.pending_nodes[0] = index
        return True
    return False


@lean
def advance(game: Any, settings: CompiledSettings, arena: Arena, history: History, batch: tuple[Rows, Worlds]) -> int:
    """Run every searching slot until it waits for the network; return the number of rows of the batch.

    Requires `absorb` for all pending rows, with their predictions in `worlds.likelihood`.
    """
    # Duplicates the loop of `determinise.advance`: numba keys code with a function argument by the function's address, so
    # every process would recompile the whole search instead of loading it from the disk cache.
    used = wide(0)
    for g in range(arena.slots.shape[0]):
        slot = arena.slots[g]
        while slot.status == SEARCHING:
            if _collect(game, settings, arena, g, batch, used):
                used += 1
                break
            settle(game, arena, history, g, settings)
    return used


@lean
def absorb(arena: Arena, batch: tuple[Rows, Worlds], used: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Write the evaluations to the pending slots: policy float32 [R, L], value float32 [R, P], player to move first."""
    for g in range(arena.slots.shape[0]):
        if arena.slots[g].status == SEARCHING and arena.slots[g].pending:
            row, index = arena.pending_rows[g, 0], wide(arena.pending_nodes[g, 0])
            evaluate(arena.nodes[g], arena.edges[g], index, policy[row], value[row])
