"""Leaves of TD-leaf: a move's value is that of the position after the best reply, by the weights as they stand.

TD-leaf(lambda) (Baxter, Tridgell and Weaver 1998) moves the values of the leaves of principal variations, not those of the
positions played. The search here has two plies, the move and the reply; the rule is that of `sarsa`.

Axes: N moves of a game, M replies, F features.
"""

from __future__ import annotations

import numpy as np

from trainer.learners.sarsa_lambda.rule import ENDED, NONE, Episode

__all__ = ["with_leaves"]


def with_leaves(episode: Episode, weights: np.ndarray) -> Episode:
    """Return the episode with the features and phases of the leaves in place of those of the moves.

    The pools of `episode` hold the positions after all replies, for the player of the move; `weights`: float64 [3, F]. A move
    whose best reply ends the game keeps its own position: the end has no features.
    """
    phases = episode.pool_phases
    if not phases.size:
        return episode
    values = np.einsum("nmf,nmf->nm", weights[np.maximum(phases, 0)], episode.pool_features)
    values = np.where(phases == ENDED, _ended(episode), values)
    best = np.where(phases == NONE, np.inf, values).argmin(axis=1)  # the other player minimises
    rows = np.arange(len(best))
    replaced = phases[rows, best] >= 0
    features, of_leaves = episode.features.copy(), episode.phases.copy()
    features[replaced] = episode.pool_features[rows, best][replaced]
    of_leaves[replaced] = phases[rows, best][replaced]
    return episode._replace(features=features, phases=of_leaves)


def _ended(episode: Episode) -> np.ndarray:
    """Return bounds of values where a reply ends the game, float64 [N, M]: a lost game is worse than every other reply."""
    rewards = episode.pool_rewards
    return np.where(np.abs(rewards) == 1.0, np.copysign(np.inf, rewards), rewards)
