"""Simulations of UCT whose priors are computed by a perceptron in compiled code."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from games.core import Game
from zerofleet.agents.perceptron_values import Successors, evaluate_successors, play_successors
from zerofleet.agents.uct.descent import ASKS, simulate
from zerofleet.agents.uct.tree import ACTION, COUNT, PENDING, START, TRIED, Tree, UctPlan

__all__ = ["simulate_with"]


@compiled
def simulate_with(game: Game, tree: Tree, plan: UctPlan, successors: Successors, simulations: int, positions: int) -> int:
    """Run as `zerofleet.agents.uct.descent.simulate`, and set the priors of pending nodes; never returns ASKS."""
    while True:
        status = simulate(game, tree, plan, simulations, positions)
        if status != ASKS:
            return status
        node = tree.nodes[tree.tally[PENDING]]
        start, count = node[START], node[COUNT]
        actions = np.empty(count, dtype=np.int16)
        for i in range(count):
            actions[i] = tree.edges[start + i, ACTION]
        play_successors(game, tree.state, actions, 0, successors)
        evaluate_successors(game, count, 0, successors)
        for i in range(count):
            tree.sums[start + i] = plan.confidence * successors.values[0, i]
        node[TRIED] = count
