"""The uniformly random agent: the lowest rung of every ladder."""

from __future__ import annotations

import numpy as np

from games.core import Game, State
from games.positions import legal
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.spelling import Spelling

__all__ = ["RandomAgent", "from_spelling"]


class RandomAgent:
    """Chooses uniformly among the legal moves."""

    name = "random"

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        return Choice(int(rng.choice(legal(game, state))))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        moves = len(legal(game, state))
        return np.full(moves, 1.0 / moves)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RandomAgent:
    """Return the agent written `random`."""
    spelling.refuse_argument()
    spelling.refuse_options()
    return RandomAgent()
