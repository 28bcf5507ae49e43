"""Information-set search: each simulation samples a world consistent with the searcher's view.

    root, the searcher's view ──> a new determinisation of the hidden cards for each simulation
      │ the searcher's action, by PUCT
      ▼
    the opponents move in that world: the network evaluates their own views, and actions are sampled from its policy
      ▼
    the searcher's next turn: the child of that edge with this view, or a new one, which the network evaluates

One tree covers all worlds, so worlds that the searcher cannot distinguish share a decision, and no player plans with hidden
cards. Source: Cowling, Powley and Whitehouse 2012, "Information Set Monte Carlo Tree Search", single observer. Its
availability counts equal the visits of a node here, since the view determines the legal actions
(`docs/decisions/0008-search-with-hidden-information.md`).

A slot waits for one row at a time: an opponent's policy, or the evaluation of a new node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from games import core
from games.compiled import lean
from games.kit.randomness import uniform
from zerofleet.search.arena import SEARCHING, Arena, History, Rows
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.hidden.worlds import OPPONENT, Worlds, ask, draw_seed, view_key
from zerofleet.search.kernel import EXTERNAL, settle
from zerofleet.search.simulate import evaluate, expand, next_edge, tree_of
from zerofleet.search.tree import EXPANDED, NO_NODE, ROOT, Tree, add_node, backup, copy, wide

__all__ = ["absorb", "advance"]


@lean
def _draw(policy: np.ndarray, count: int, word: np.ndarray) -> int:
    """Return an index below `count` sampled in proportion to `policy` (float32 [L]); uniformly if it is all zeros."""
    total = 0.0
    for i in range(count):
        total += policy[i]
    if total <= 0.0:
        return int(uniform(word) * count)
    aim = uniform(word) * total
    last = 0
    for i in range(count):
        if policy[i] > 0.0:
            last = i
            aim -= policy[i]
            if aim < 0.0:
                return i
    return last


@lean
def _begin_search(tree: Tree, slot: Any, cursor: Any, moments: np.ndarray) -> None:
    """Set the models of the seats, and clear the moments. A seat without a model is simulated with the searcher's."""
    moments[:] = 0.0
    for seat in range(cursor.models.shape[0]):
        version = slot.versions[seat]
        cursor.models[seat] = slot.version if version == EXTERNAL else version
    tree.pending_nodes[0] = ROOT


@lean
def _note_value(tree: Tree, cursor: Any, moments: np.ndarray, value: np.ndarray) -> None:
    """Add the value (float32 [P], seat order) of the cursor's world to the moments of its root edge."""
    found = float(value[tree.nodes[ROOT].to_move])
    place = cursor.first - tree.nodes[ROOT].edge_start
    moments[place, 0] += found
    moments[place, 1] += found * found


@lean
def _back_up_end(game: Any, tree: Tree, cursor: Any, state: np.ndarray, scores: np.ndarray) -> None:
    """Back up a simulation that reached the end of the game, which is no node: other worlds end differently."""
    core.scores(game, state, scores)
    edge = tree.edges[cursor.edge]
    edge.visits += 1
    for player in range(scores.shape[0]):
        edge.value[player] += scores[player]
    backup(tree.nodes, tree.edges, wide(cursor.node), scores)


@lean
def _node_of_view(
    game: Any, tree: Tree, slot: Any, cursor: Any, siblings: np.ndarray, view: tuple[np.ndarray, np.ndarray]
) -> int:
    """Return the node below the cursor's edge for a view (planes, state), or a new one, not yet evaluated."""
    packed, state = view
    count = core.legal_actions(game, state, tree.legal)
    key = view_key(packed, tree.legal, count)
    edge = tree.edges[cursor.edge]
    index = int(edge.child)
    while index != NO_NODE:
        if tree.nodes[index].key == key:
            return index
        index = int(siblings[index])
    copy(state, tree.states[slot.nodes])
    index = add_node(game, tree, slot, wide(cursor.node), wide(cursor.edge))
    tree.nodes[index].key = key
    siblings[index] = edge.child
    edge.child = index
    return index


@lean
def _follow(game: Any, settings: CompiledSettings, arena: Arena, g: int, batch: tuple[Rows, Worlds], row: int) -> bool:
    """Continue slot g's simulation until it needs the network (true) or the game ends (false)."""
    rows, worlds = batch
    slot, cursor, state = arena.slots[g], worlds.cursors[g], worlds.states[g]
    tree = tree_of(arena, g)
    viewer = wide(tree.nodes[ROOT].to_move)
    while not core.is_over(game, state):
        mover = core.to_move(game, state)
        if mover != viewer:
            if core.legal_actions(game, state, tree.legal) == 1:
                core.play(game, state, wide(tree.legal[0]))
                continue
            index = OPPONENT
        else:
            core.encode(game, state, viewer, rows.states[row])
            index = _node_of_view(game, tree, slot, cursor, worlds.siblings[g], (rows.states[row], state))
        if index == OPPONENT or tree.nodes[index].kind != EXPANDED:
            ask(game, state, tree, slot, rows, row)
            rows.versions[row] = cursor.models[mover]
            tree.pending_nodes[0] = index
            return True
        cursor.node = index
        cursor.edge = next_edge(tree, slot, settings, arena, index)
        core.play(game, state, wide(tree.edges[cursor.edge].action))
    _back_up_end(game, tree, cursor, state, slot.scores)
    _note_value(tree, cursor, worlds.moments[g], slot.scores)
    return False


@lean
def _begin_simulation(game: Any, arena: Arena, tree: Tree, g: int, settings: CompiledSettings, worlds: Worlds) -> None:
    """Sample a world and play the searcher's first action in it."""
    slot, cursor, state = arena.slots[g], worlds.cursors[g], worlds.states[g]
    seed = draw_seed(tree.word)
    core.determinise(game, tree.states[ROOT], wide(tree.nodes[ROOT].to_move), seed, state)
    cursor.node = ROOT
    cursor.edge = next_edge(tree, slot, settings, arena, wide(ROOT))
    cursor.first = cursor.edge
    core.play(game, state, wide(tree.edges[cursor.edge].action))


@lean
def _collect(game: Any, settings: CompiledSettings, arena: Arena, g: int, batch: tuple[Rows, Worlds], row: int) -> bool:
    """Run simulations of slot g until one needs the network (true) or the budget is reached (false)."""
    rows, worlds = batch
    slot, cursor = arena.slots[g], worlds.cursors[g]
    tree = tree_of(arena, g)
    root = tree.nodes[ROOT]
    if slot.pending:  # its row is evaluated
        slot.pending = 0
        if tree.pending_nodes[0] == OPPONENT:
            core.play(game, worlds.states[g], wide(cursor.choice))
            if _follow(game, settings, arena, g, batch, row):
                return True
        else:
            leaf = wide(tree.pending_nodes[0])
            expand(tree.nodes, tree.edges, leaf)
            if leaf != ROOT:
                _note_value(tree, cursor, worlds.moments[g], tree.nodes[leaf].value)
    while root.visits - 1 < slot.budget:
        arena.counters[0] += 1
        if root.kind != EXPANDED:
            _begin_search(tree, slot, cursor, worlds.moments[g])
            ask(game, tree.states[ROOT], tree, slot, rows, row)
            rows.versions[row] = slot.version
            return True
        _begin_simulation(game, arena, tree, g, settings, worlds)
        if _follow(game, settings, arena, g, batch, row):
            return True
    return False


@lean
def advance(game: Any, settings: CompiledSettings, arena: Arena, history: History, batch: tuple[Rows, Worlds]) -> int:
    """Run every searching slot until it waits for the network; return the number of rows of the batch.

    Requires `absorb` for all pending rows.
    """
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
    rows, worlds = batch
    for g in range(arena.slots.shape[0]):
        if arena.slots[g].status != SEARCHING or arena.slots[g].pending == 0:
            continue  # an abandoned game may still have `pending` set
        row, index = arena.pending_rows[g, 0], wide(arena.pending_nodes[g, 0])
        if index != OPPONENT:
            evaluate(arena.nodes[g], arena.edges[g], index, policy[row], value[row])
            continue
        count = 0
        while count < rows.legal.shape[1] and rows.legal[row, count] >= 0:
            count += 1
        worlds.cursors[g].choice = rows.legal[row, _draw(policy[row], count, arena.words[g])]
