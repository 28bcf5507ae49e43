"""Compiled life cycle of a slot: search, wait for the network, move, next search.

IDLE --begin--> SEARCHING --leaf needs the network--> SEARCHING with pending leaves --absorb--> SEARCHING
                    |  ^                                             | budget reached, or decided by proof
                    |  +------------------- game continues <---------+--- move is played ---> FINISHED
                    +--- the seat to move is EXTERNAL, or the slot holds after each search ---> WAITING
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import inlined, lean
from games.kit.randomness import uniform
from zerofleet.search import cache as positions
from zerofleet.search.arena import FINISHED, SEARCHING, WAITING, Arena, Cache, History, Rows
from zerofleet.search.compiled_settings import LOOK_AT_LEAVES, LOOK_AT_REPLIES, CompiledSettings
from zerofleet.search.decide import choose_move, note_search
from zerofleet.search.look_ahead import Ahead, claim_win, look_ahead, rule_out_losses
from zerofleet.search.proof import is_proven, moves_left, prove_above
from zerofleet.search.repetition import cut_repetition, remember
from zerofleet.search.simulate import ANSWERED, all_answered, descend, evaluate, expand_pending, has_budget, request, tree_of
from zerofleet.search.tree import (
    EXPANDED,
    NO_NODE,
    OVER,
    PENDING,
    PROVEN,
    ROOT,
    UNEXPANDED,
    Tree,
    add_node,
    backup,
    copy,
    keep_subtree,
    wide,
)
from zerofleet.search.window import WINDOW, descend_window, exceeds_cache, load_ahead, load_paths

__all__ = ["EXTERNAL", "absorb", "advance", "begin", "commit", "search_on", "settle"]

EXTERNAL = -1
NO_SEARCH = -1  # budget of a forced move: below the visits of any root, evaluated or not


@lean
def _new_tree(game: Any, arena: Arena, g: int) -> None:
    """Reset slot g's tree to a root with the position in `arena.states[g, 0]`."""
    slot = arena.slots[g]
    slot.nodes = 0
    slot.edges = 0
    slot.reached = ROOT
    add_node(game, tree_of(arena, g), slot, wide(NO_NODE), wide(NO_NODE))


@lean
def begin(
    game: Any,
    arena: Arena,
    history: History,
    g: int,
    settings: CompiledSettings,
    start: tuple[int, np.ndarray, np.ndarray, np.ndarray, bool, bool],
) -> int:
    """Begin a game in slot g; return the index of the first illegal move of its opening, which has to be legal, else -1.

    After an illegal move the slot stays idle; an opening that ends the game leaves the slot FINISHED.

    Args:
        start: (seed, model versions by seat, int64 [P]; opening, int64 [n]; position that replaces the start of the game,
            state_dtype [S], or empty; whether the slot holds; whether repetition keys are kept).
    """
    seed, versions, opening, position, holds, keeps = start
    slot = arena.slots[g]
    state = arena.states[g, ROOT]
    slot.ply = opening.size
    slot.hold = holds
    slot.resigned = -1
    slot.reduced = 0
    slot.version = 0
    slot.pending = 0
    for seat in range(versions.size):
        slot.versions[seat] = versions[seat]
    history.versions[g] = 0
    core.reset(game, state, seed)
    for i in range(position.size):
        state[i] = position[i]
    illegal = _play_opening(game, arena, history, g, opening, keeps)
    if illegal >= 0:
        return illegal
    arena.words[g, 0] = np.uint64(seed)
    slot.control = uniform(arena.words[g]) < settings.resign_control_share
    _new_tree(game, arena, g)
    _begin_move(game, arena, g, settings)
    return -1


@lean
def _play_opening(game: Any, arena: Arena, history: History, g: int, opening: np.ndarray, keeps: bool) -> int:
    """Play the moves (int64 [n]) of an opening at slot g's root; return the index of the first illegal one, -1 if none is.

    `keeps`: also note the repetition keys of the positions before them.
    """
    state = arena.states[g, ROOT]
    for ply in range(opening.size):
        count = core.legal_actions(game, state, arena.legal)
        listed = 0
        for i in range(count):
            listed += arena.legal[i] == opening[ply]
        if listed == 0:
            return ply
        if keeps:
            arena.past[g, ply] = core.repetition_key(game, state)
        core.play(game, state, wide(opening[ply]))
        history.moves[g, ply] = opening[ply]
    return -1


@lean
def _begin_move(game: Any, arena: Arena, g: int, settings: CompiledSettings) -> None:
    """Start the search of slot g's root position, or set the slot to WAITING or FINISHED."""
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    slot.searched = 0
    if root.kind == OVER:
        copy(root.value, slot.scores)
        slot.status = FINISHED
        return
    version = slot.versions[root.to_move]
    if version == EXTERNAL:
        slot.status = WAITING
        return
    if version != slot.version and root.kind != UNEXPANDED:
        _new_tree(game, arena, g)
    slot.version = version
    slot.status = SEARCHING
    slot.prepared = 0
    slot.looked = 0
    slot.target = settings.full_search_share >= 1.0 or uniform(arena.words[g]) < settings.full_search_share
    slot.full = 1 if slot.target and not slot.reduced else 0
    slot.budget = settings.simulations if slot.full else settings.fast_simulations
    if root.edge_count == 1 and not slot.hold:
        slot.budget = NO_SEARCH


@lean
def settle(game: Any, arena: Arena, history: History, g: int, settings: CompiledSettings) -> None:
    """Complete the search of slot g at its budget: wait for a decision, resign, or play."""
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    if slot.budget == NO_SEARCH:
        commit(game, arena, history, g, settings, wide(root.edge_start))
        return
    slot.searched = 1
    if slot.hold:
        slot.status = WAITING
        return
    edge = choose_move(arena, g, settings)
    commit(game, arena, history, g, settings, edge)


@lean
def commit(game: Any, arena: Arena, history: History, g: int, settings: CompiledSettings, edge: int) -> None:
    """Play a root edge in slot g and begin the next move. A search is written to the history first, and may resign: the game
    ends, or its further searches are reduced.

    A held slot never resigns.
    """
    slot = arena.slots[g]
    root = arena.nodes[g, ROOT]
    resigns = slot.searched and note_search(arena, history, g, settings) and not slot.hold
    if resigns and settings.soft_resignation:
        slot.reduced = 1
    elif resigns:
        slot.resigned = root.to_move
        slot.scores[:] = 1.0
        slot.scores[root.to_move] = -1.0
        slot.status = FINISHED
        return
    action = wide(arena.edges[g, edge].action)
    history.moves[g, slot.ply] = action
    slot.ply += 1
    arena.counters[2] += 1
    if settings.repetition:
        remember(game, arena.states[g, ROOT], arena.past[g], slot.ply - 1, settings)
    child = arena.edges[g, edge].child
    keep = settings.reuse_subtree and child != NO_NODE
    if keep and (arena.nodes[g, child].kind == EXPANDED or arena.nodes[g, child].kind == PROVEN):
        keep_subtree(tree_of(arena, g), slot, child)
    else:
        core.play(game, arena.states[g, ROOT], action)
        _new_tree(game, arena, g)
    _begin_move(game, arena, g, settings)


@lean
def _end_if_decided(nodes: Any, edges: Any, slot: Any) -> None:
    """End the search of a proven root at once, and of a root with one move left after one visit, which values that move.

    As with a single legal move, a held slot searches the one move left to its budget.
    """
    if is_proven(nodes, wide(ROOT)):
        slot.budget = 0
    elif not slot.hold and moves_left(nodes, edges) == 1:
        slot.budget = min(slot.budget, 1)


@inlined
def _look_at_leaf(game: Any, settings: CompiledSettings, tree: Tree, slot: Any, ahead: Ahead, index: int) -> None:
    """Look one ply ahead of a new leaf, and with the settings for it two."""
    state = tree.states[index]
    if core.may_end(game, state, wide(1)):
        claim_win(game, (tree.nodes, tree.edges), slot, state, ahead, index)
    if settings.proofs == LOOK_AT_REPLIES and tree.nodes[index].kind == UNEXPANDED and core.may_end(game, state, wide(2)):
        rule_out_losses(game, (tree.nodes, tree.edges), slot, state, ahead, index)


@inlined
def _collect(game: Any, settings: CompiledSettings, arena: Arena, g: int, batch: tuple[Rows, Cache], used_rows: int) -> int:
    """Run simulations of slot g until it waits for the network or its search is complete; return the rows used."""
    slot = arena.slots[g]
    tree = tree_of(arena, g)
    ahead = Ahead(arena.ahead, arena.replies, arena.outcome)
    root = tree.nodes[ROOT]
    simulations, hits = 0, 0
    while True:
        if (
            settings.proofs
            and not slot.looked
            and root.kind == EXPANDED
            # Without a budget only a proven root is looked at: a proof from below names no winning move.
            and (slot.budget > 0 or (slot.budget == 0 and is_proven(tree.nodes, wide(ROOT))))
        ):
            look_ahead(game, tree.nodes, tree.edges, tree.states[ROOT], ahead)
            slot.looked = 1
            _end_if_decided(tree.nodes, tree.edges, slot)
        if slot.pending >= settings.leaves_per_game or not has_budget(slot, root):
            break
        index = descend(game, tree, slot, settings, arena)
        node = tree.nodes[index]
        if node.kind == PENDING:
            break  # selection reached a pending leaf
        simulations += 1
        if node.visits == 0 and index != ROOT:
            if settings.repetition and node.kind == UNEXPANDED:
                cut_repetition(game, tree, slot, settings, index)
            if settings.proofs >= LOOK_AT_LEAVES and node.kind == UNEXPANDED:
                _look_at_leaf(game, settings, tree, slot, ahead, index)
            if settings.proofs and node.kind != UNEXPANDED and prove_above(tree.nodes, tree.edges, index):
                _end_if_decided(tree.nodes, tree.edges, slot)
        if node.kind >= OVER:
            backup(tree.nodes, tree.edges, index, node.value)
            continue
        rows_before = used_rows
        used_rows = request(game, tree, slot, index, batch, used_rows)
        hits += used_rows == rows_before
    arena.counters[0] += simulations
    arena.counters[1] += hits
    return used_rows


def advance(game: Any, settings: CompiledSettings, arena: Arena, history: History, batch: tuple[Rows, Cache]) -> int:
    """Run every searching slot until it waits for the network; return the number of rows of the batch."""
    rows, cache = batch
    policy, value = (np.empty((0, array.shape[1]), dtype=np.float32) for array in (rows.legal, cache.value))
    return search_on(game, settings, arena, history, batch, (0, policy, value))


@lean
def search_on(
    game: Any,
    settings: CompiledSettings,
    arena: Arena,
    history: History,
    batch: tuple[Rows, Cache],
    answers: tuple[int, np.ndarray, np.ndarray],
) -> int:
    """Absorb the last evaluations and run every searching slot until it waits for the network; return the rows of the batch.

    `answers`: number of rows of the last batch, policy and value as in `absorb`; without rows the pending slots wait on.
    Both are done window by window: a tree is in the processor's cache once in place of twice for each batch.
    """
    answered, policy, value = answers
    _fill_cache(batch, answered, policy, value)
    used = wide(0)
    together = exceeds_cache(arena)
    width = WINDOW if together else 1
    for first in range(0, arena.slots.shape[0], width):
        after = min(first + width, arena.slots.shape[0])
        if together:
            load_paths(arena, first, after)
        for g in range(first, after):
            load_ahead(arena, g)
            if answered > 0 and arena.slots[g].pending > 0:
                _absorb_slot(arena, g, policy, value)
        if together:
            descend_window(game, settings, arena, first, after)
        for g in range(first, after):
            slot = arena.slots[g]
            while slot.status == SEARCHING and slot.pending == 0:
                used = _collect(game, settings, arena, g, batch, used)
                if slot.pending == 0:
                    settle(game, arena, history, g, settings)
                elif all_answered(arena, g):
                    expand_pending(arena, g)
    return used


@lean
def absorb(arena: Arena, batch: tuple[Rows, Cache], used: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Write the evaluations to the pending leaves: policy float32 [R, L], value float32 [R, P], player to move first."""
    _fill_cache(batch, used, policy, value)
    for g in range(arena.slots.shape[0]):
        if arena.slots[g].pending > 0:
            _absorb_slot(arena, g, policy, value)


@inlined
def _fill_cache(batch: tuple[Rows, Cache], used: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Write the evaluations of the rows that were reserved for it to the cache."""
    rows, cache = batch
    for row in range(used):
        if rows.entries[row] >= 0:
            positions.fill(cache, rows.entries[row], policy[row], value[row])


@inlined
def _absorb_slot(arena: Arena, g: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Write the evaluations to slot g's pending leaves."""
    slot = arena.slots[g]
    for i in range(slot.pending):
        row = arena.pending_rows[g, i]
        if row != ANSWERED:
            evaluate(arena.nodes[g], arena.edges[g], wide(arena.pending_nodes[g, i]), policy[row], value[row])
    expand_pending(arena, g)
