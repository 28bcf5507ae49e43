"""The agent of first games: every move is possible, and moves that gain ground are likelier than moves that lose it.

A move has the weight 4 if `games.core.move_value` is positive, 2 if it is zero and 1 if it is negative; probabilities are
proportional to the weights. Games thus end sooner than random ones and still teach a network hardly any bias: the
probabilities are themselves the policy target. In a game without that rule all moves are equally likely.

Source: D. Schulte, "Reinforcement Learning for 3-player Chinese Checkers" (University of Cologne, 2021), section 4.4.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.compiled import compiled
from games.core import Game, State
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.spelling import Spelling

__all__ = ["InitializeAgent", "from_spelling"]

_BACKWARD, _LEVEL, _FORWARD = 1.0, 2.0, 4.0


class InitializeAgent:
    """Samples a move from `policy`."""

    name = "initialize"

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        actions, weights = _weigh(game, state)
        sums = np.cumsum(weights)
        return Choice(int(actions[np.searchsorted(sums, rng.random() * sums[-1], side="right")]))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        weights = _weigh(game, state)[1]
        return np.asarray(weights / weights.sum())


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> InitializeAgent:
    """Return the agent written `initialize`."""
    spelling.refuse_argument()
    spelling.refuse_options()
    return InitializeAgent()


def _weigh(game: Game, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Return the legal actions, int16 [n], and their weights, float64 [n]."""
    most = game.spec().max_legal
    actions, weights = np.empty(most, dtype=np.int16), np.empty(most)
    count = _list_weights(game, state, actions, weights)
    return actions[:count], weights[:count]


@compiled
def _list_weights(game: Game, state: State, actions: np.ndarray, weights: np.ndarray) -> int:
    """Write the legal actions and their weights and return their number."""
    count: int = core.legal_actions(game, state, actions)
    for i in range(count):
        value = core.move_value(game, state, actions[i])
        weights[i] = _FORWARD if value > 0.0 else _LEVEL if value == 0.0 else _BACKWARD
    return count
