"""Rollouts: a new leaf of UCT is evaluated by playing the game to its end with a simple policy."""

from __future__ import annotations

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game
from games.kit.randomness import uniform, uniform_int
from zerofleet.agents.uct.tree import POSITIONS, Tree, UctPlan

__all__ = ["play_out", "rollout_move"]


@lean
def play_out(game: Game, tree: Tree, plan: UctPlan) -> None:
    """Play `tree.state` to the end or the plan's limit of plies and write each player's score into `tree.scores`."""
    plies = 0
    count = core.legal_actions(game, tree.state, tree.listed)
    while count > 0 and plies != plan.most_plies:
        core.play(game, tree.state, rollout_move(game, tree, plan, count))
        plies += 1
        count = core.legal_actions(game, tree.state, tree.listed)
    tree.tally[POSITIONS] += plies
    if count == 0:
        core.scores(game, tree.state, tree.scores)
    elif plan.estimated:
        core.estimate(game, tree.state, tree.scores)
    else:
        core.standing(game, tree.state, tree.scores)


@lean
def rollout_move(game: Game, tree: Tree, plan: UctPlan, count: int) -> int:
    """Return the rollout policy's choice among the `count` listed actions."""
    if plan.greedy and (plan.epsilon <= 0.0 or uniform(tree.word) >= plan.epsilon):
        return int(tree.listed[_best_looking(game, tree, count)])
    return int(tree.listed[uniform_int(tree.word, count)])


@lean
def _best_looking(game: Game, tree: Tree, count: int) -> int:
    """Return the index of an action of the largest `move_value`; ties are broken uniformly."""
    best, found, equal = -np.inf, 0, 0
    for i in range(count):
        value = core.move_value(game, tree.state, tree.listed[i])
        if value > best:
            best, found, equal = value, i, 1
        elif value == best:
            equal += 1
            if uniform_int(tree.word, equal) == 0:
                found = i
    return found
