"""Simulations of UCT with hidden information: one determinisation per simulation, one tree over the searcher's views.

    root, the searcher's view ──> a new determinisation for each simulation
      │ the searcher's move, by UCB1
      ▼
    the opponents move in that determinisation, by the rollout policy
      ▼
    the searcher's next turn: the child of that edge with this view, or a new leaf, where the rollout starts

A move is thus shared by all determinisations that the searcher cannot distinguish; no player plans with hidden information,
and no player observes a simultaneous choice. Source: Cowling, Powley and Whitehouse 2012, "Information Set Monte Carlo Tree
Search", single observer. Its availability counts, how often a move could have been selected, equal the visits of a node here:
the searcher's view determines their own legal moves, and the opponents' moves are in no tree.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game
from games.kit.randomness import mix64, next_u64
from zerofleet.agents.uct.descent import DONE, FULL, back_up, choose
from zerofleet.agents.uct.rollout import play_out, rollout_move
from zerofleet.agents.uct.tree import (
    ACTION,
    CHILD,
    COUNT,
    FROZEN,
    MOVER,
    NO_NODE,
    POSITIONS,
    ROOT,
    SIBLING,
    SIMULATIONS,
    START,
    UNLISTED,
    VISITS,
    Tree,
    UctPlan,
    add_node,
    is_full,
    list_moves,
)

__all__ = ["simulate_worlds"]


@lean
def simulate_worlds(game: Game, tree: Tree, plan: UctPlan, simulations: int, positions: int) -> int:
    """Run simulations, like `zerofleet.agents.uct.descent.simulate` but without priors."""
    tally = tree.tally
    viewer = tree.nodes[ROOT, MOVER]
    while tally[SIMULATIONS] < simulations and tally[POSITIONS] < positions:
        if is_full(tree):
            return FULL
        core.determinise(game, tree.root, viewer, int(np.int64(next_u64(tree.word) >> np.uint64(1))), tree.state)
        depth = _descend(game, tree, plan)
        play_out(game, tree, plan)
        back_up(tree, depth)
    return DONE


@lean
def _descend(game: Game, tree: Tree, plan: UctPlan) -> int:
    """Play from the root to a new leaf or the end of the game; return the number of the searcher's moves."""
    nodes, edges, tally = tree.nodes, tree.edges, tree.tally
    node, depth = ROOT, 0
    while True:
        if nodes[node, START] == UNLISTED:
            if tally[FROZEN]:
                return depth
            list_moves(game, tree, node)
        edge = choose(tree, plan, node, _visits(tree, node))
        tree.path[depth, 0], tree.path[depth, 1] = node, edge
        depth += 1
        core.play(game, tree.state, edges[edge, ACTION])
        tally[POSITIONS] += 1 + _let_others_move(game, tree, plan)
        if core.is_over(game, tree.state):
            return depth
        key = _view_key(game, tree)
        node = _find(tree, edges[edge, CHILD], key)
        if node == NO_NODE:
            node = add_node(game, tree)
            if node != NO_NODE:
                tree.keys[node] = key
                nodes[node, SIBLING] = edges[edge, CHILD]
                edges[edge, CHILD] = node
            return depth


@lean
def _let_others_move(game: Game, tree: Tree, plan: UctPlan) -> int:
    """Play until it is the searcher's turn again or the game is over; return the number of moves."""
    plies = 0
    while not core.is_over(game, tree.state) and core.to_move(game, tree.state) != tree.nodes[ROOT, MOVER]:
        count = core.legal_actions(game, tree.state, tree.listed)
        core.play(game, tree.state, rollout_move(game, tree, plan, count))
        plies += 1
    return plies


@lean
def _visits(tree: Tree, node: int) -> int:
    """Return N(v): the visits of its moves, plus its own first rollout unless it is the root."""
    total = 0 if node == ROOT else 1
    start = tree.nodes[node, START]
    for edge in range(start, start + tree.nodes[node, COUNT]):
        total += tree.edges[edge, VISITS]
    return total


@lean
def _find(tree: Tree, first: int, key: np.uint64) -> int:
    """Return the node with this view among the siblings starting at `first`, or NO_NODE."""
    node = first
    while node != NO_NODE and tree.keys[node] != key:
        node = tree.nodes[node, SIBLING]
    return int(node)


@lean
def _view_key(game: Game, tree: Tree) -> np.uint64:
    """Hash the view of the player to move to 64 bits: planes and legal actions. `games.core.key` may cover hidden parts."""
    core.encode(game, tree.state, core.to_move(game, tree.state), tree.seen)
    count = core.legal_actions(game, tree.state, tree.listed)
    mixed = mix64(np.uint64(count + 1))
    for i in range(tree.seen.shape[0]):
        mixed = mix64(mixed ^ np.uint64(tree.seen[i]))
    for i in range(count):
        mixed = mix64(mixed ^ np.uint64(tree.listed[i]))
    return mixed
