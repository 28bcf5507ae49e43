"""The life of a slot, compiled: search, wait for the network, move, and begin the next search.

IDLE --begin--> SEARCHING --leaf needs the network--> SEARCHING with pending leaves --absorb--> SEARCHING
                    |  ^                                             | budget reached
                    |  +------------------- the game goes on <-------+--- move is played ---> FINISHED
                    +--- the seat to move is EXTERNAL, or the slot holds after each search ---> WAITING
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import compiled
from games.randomness import uniform
from zerofleet.search import cache as positions
from zerofleet.search.arena import FINISHED, SEARCHING, WAITING, Arena, Cache, History, Rows
from zerofleet.search.decide import choose_move, note_search
from zerofleet.search.rules import Rules
from zerofleet.search.simulate import expand, simulate, tree_of
from zerofleet.search.tree import EXPANDED, NO_NODE, OVER, ROOT, UNEXPANDED, add_node, keep_subtree, release_flight

__all__ = ["EXTERNAL", "absorb", "advance", "begin_move", "commit", "new_tree"]

EXTERNAL = -1


@compiled
def new_tree(game: Any, arena: Arena, g: int) -> None:
    """Forget slot g's tree; its root is the position in `arena.states[g, 0]`."""
    slot = arena.slots[g]
    slot.nodes = 0
    slot.edges = 0
    add_node(game, tree_of(arena, g), slot, NO_NODE, NO_NODE)


@compiled
def begin_move(game: Any, arena: Arena, g: int, rules: Rules) -> None:
    """Prepare the search of the position at slot g's root, or let the slot wait for its move or end."""
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    slot.searched = 0
    if root.kind == OVER:
        slot.scores[:] = root.value
        slot.status = FINISHED
        return
    version = slot.versions[root.to_move]
    if version == EXTERNAL:
        slot.status = WAITING
        return
    if version != slot.version and root.kind != UNEXPANDED:
        new_tree(game, arena, g)
    slot.version = version
    slot.status = SEARCHING
    slot.prepared = 0
    slot.full = rules.full_search_share >= 1.0 or uniform(arena.words[g]) < rules.full_search_share
    slot.budget = rules.simulations if slot.full else rules.fast_simulations
    if root.edge_count == 1 and not slot.hold:
        slot.budget = 0  # nothing to decide


@compiled
def _settle(game: Any, arena: Arena, history: History, g: int, rules: Rules) -> None:
    """The budget of slot g is reached: wait for a decision, resign, or play."""
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    if slot.budget == 0:
        commit(game, arena, history, g, rules, root.edge_start)
        return
    slot.searched = 1
    if slot.hold:
        slot.status = WAITING
        return
    edge = choose_move(arena, g, rules)
    commit(game, arena, history, g, rules, edge)


@compiled
def commit(game: Any, arena: Arena, history: History, g: int, rules: Rules, edge: int) -> None:
    """Play a root edge in slot g and begin the next move. A search goes into the history first, and may resign."""
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    if slot.searched and note_search(arena, history, g, rules):
        slot.resigned = root.to_move
        slot.scores[:] = 1.0
        slot.scores[root.to_move] = -1.0
        slot.status = FINISHED
        return
    action = arena.edges[g, edge].action
    history.moves[g, slot.ply] = action
    slot.ply += 1
    arena.counters[2] += 1
    child = arena.edges[g, edge].child
    keep = rules.reuse_subtree and not rules.gumbel and slot.searched and child != NO_NODE
    if keep and arena.nodes[g, child].kind == EXPANDED:
        keep_subtree(tree_of(arena, g), slot, child)
    else:
        core.play(game, arena.states[g, ROOT], action)
        new_tree(game, arena, g)
    begin_move(game, arena, g, rules)


@compiled
def advance(game: Any, rules: Rules, arena: Arena, history: History, batch: tuple[Rows, Cache]) -> int:
    """Run every searching slot until it waits for the network; return how many rows the batch has."""
    used = 0
    for g in range(arena.slots.shape[0]):
        slot = arena.slots[g]
        while slot.status == SEARCHING and slot.pending == 0:
            root = arena.nodes[g, ROOT]
            while slot.pending < rules.leaves_per_game and root.visits - 1 + root.flight < slot.budget:
                rows = simulate(game, arena, g, rules, batch, used)
                if rows < 0:
                    break
                used = rows
            if slot.pending == 0:
                _settle(game, arena, history, g, rules)
    return used


@compiled
def absorb(arena: Arena, batch: tuple[Rows, Cache], used: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Give every waiting leaf its evaluation: policy float32 [R, L], value float32 [R, P], player to move first."""
    rows, cache = batch
    for row in range(used):
        if rows.entries[row] >= 0:
            positions.fill(cache, rows.entries[row], policy[row], value[row])
    for g in range(arena.slots.shape[0]):
        slot = arena.slots[g]
        for i in range(slot.pending):
            index = arena.pending_nodes[g, i]
            row = arena.pending_rows[g, i]
            release_flight(arena.nodes[g], arena.edges[g], index)
            expand(tree_of(arena, g), index, policy[row], value[row])
        slot.pending = 0
