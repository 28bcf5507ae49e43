"""The agent that plays any legal move: the lowest rung of every ladder."""

from __future__ import annotations

import numpy as np

from games.core import Game, State
from games.positions import legal

__all__ = ["RandomAgent"]


class RandomAgent:
    """Chooses among the legal moves with equal chances."""

    name = "random"

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> int:
        """See `zerofleet.agents.Agent`."""
        return int(rng.choice(legal(game, state)))
