"""Compiled simulations of UCT: selection by UCB1, expansion, rollout and backup.

UCB1 selects the move with the largest Q(v')/N(v') + c sqrt(2 ln N(v) / N(v')), after every move has been tried once, in random
order. Sources: Kocsis and Szepesvari 2006, "Bandit based Monte-Carlo planning"; Browne et al. 2012, "A survey of Monte Carlo
tree search methods", algorithm 2.

With priors (Gelly and Silver 2011, "Monte-Carlo tree search and rapid action value estimation in computer Go", section 6)
every move of a node starts as if C simulations had returned the network's value H: N(v') = C and Q(v') = C H(v'), so no move
has to be tried first. These virtual visits count in N(v), the sum over the moves of a node, when selecting among them, but are
not backed up to its ancestors.
"""

from __future__ import annotations

import math

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game
from games.kit.randomness import uniform_int
from games.positions import copy_state
from zerofleet.agents.uct.rollout import play_out
from zerofleet.agents.uct.tree import (
    ACTION,
    CHILD,
    COUNT,
    FROZEN,
    MOVER,
    NO_NODE,
    PENDING,
    POSITIONS,
    ROOT,
    SIMULATIONS,
    START,
    TRIED,
    UNLISTED,
    VISITS,
    Tree,
    UctPlan,
    add_node,
    is_full,
    list_moves,
)

__all__ = ["ASKS", "DONE", "FULL", "back_up", "choose", "simulate"]

DONE, FULL, ASKS = range(3)
"""Status of `simulate`: the budget is spent; the arrays are full; a node's moves need priors."""
_ASKS = -1


@lean
def simulate(game: Game, tree: Tree, plan: UctPlan, simulations: int, positions: int) -> int:
    """Run until the tree has had `simulations` simulations, or `positions` moves played in them, in total.

    On ASKS the caller sets the priors of the moves of node `PENDING`, whose position is `tree.state`. The interrupted
    simulation does not count; the next one reaches the same node, since selection with priors is deterministic.
    """
    tally = tree.tally
    while tally[SIMULATIONS] < simulations and tally[POSITIONS] < positions:
        if is_full(tree):
            return FULL
        copy_state(tree.root, tree.state)
        depth = _descend(game, tree, plan)
        if depth == _ASKS:
            return ASKS
        tally[POSITIONS] += depth
        play_out(game, tree, plan)
        back_up(tree, depth)
    return DONE


@lean
def _descend(game: Game, tree: Tree, plan: UctPlan) -> int:
    """Play from the root to a new leaf or the end of the game; return the number of edges, or _ASKS."""
    nodes, edges, path, tally = tree.nodes, tree.edges, tree.path, tree.tally
    node, depth = ROOT, 0
    visits = tally[SIMULATIONS]
    while True:
        if nodes[node, START] == UNLISTED:
            if tally[FROZEN]:
                return depth
            list_moves(game, tree, node)
            if plan.confidence > 0.0 and nodes[node, COUNT] > 0:
                tally[PENDING] = node
                return _ASKS
        if nodes[node, COUNT] == 0:
            return depth
        edge = choose(tree, plan, node, visits)
        path[depth, 0], path[depth, 1] = node, edge
        depth += 1
        core.play(game, tree.state, edges[edge, ACTION])
        node = edges[edge, CHILD]
        if node == NO_NODE:
            edges[edge, CHILD] = add_node(game, tree)
            return depth
        visits = edges[edge, VISITS]


@lean
def choose(tree: Tree, plan: UctPlan, node: int, visits: int) -> int:
    """Return a uniformly random untried edge of a node, or else the edge of the largest UCB1 bound. `visits` is N(v)."""
    start, count, tried = tree.nodes[node, START], tree.nodes[node, COUNT], tree.nodes[node, TRIED]
    if tried < count:
        edge = start + tried
        other = edge + uniform_int(tree.word, count - tried)
        action = tree.edges[other, ACTION]
        tree.edges[other, ACTION] = tree.edges[edge, ACTION]
        tree.edges[edge, ACTION] = action
        tree.nodes[node, TRIED] = tried + 1
        return int(edge)
    spread = 2.0 * math.log(max(1.0, visits + plan.confidence * count))  # no simulation, little confidence: the priors alone
    best, best_bound = start, -np.inf
    for edge in range(start, start + count):
        own = tree.edges[edge, VISITS] + plan.confidence
        bound = tree.sums[edge] / own + plan.exploration * math.sqrt(spread / own)
        if bound > best_bound:
            best, best_bound = edge, bound
    return int(best)


@lean
def back_up(tree: Tree, depth: int) -> None:
    """Back up a simulation along its path: each edge gets the reward of the player who selected it."""
    for i in range(depth):
        node, edge = tree.path[i, 0], tree.path[i, 1]
        tree.edges[edge, VISITS] += 1
        tree.sums[edge] += tree.scores[tree.nodes[node, MOVER]]
    tree.tally[SIMULATIONS] += 1
