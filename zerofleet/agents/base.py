"""What an agent is: somebody who chooses moves by the rules alone, without a network."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from games.core import Game, State
from zerofleet.errors import InvalidRequest

__all__ = ["Agent", "require_duel"]


class Agent(Protocol):
    """A player that needs no network. One agent serves many games, also from several threads at once."""

    name: str
    """As `make_agent` reads it, such as `alpha_beta:5`."""

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> int:
        """Return a legal action for the player to move; all luck comes from `rng`. `state` stays as it is."""
        ...


def require_duel(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game is one of two players who both see everything."""
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise InvalidRequest(
            f"{name} plays games of two players with perfect information; {spec.name} has {spec.num_players} players "
            f"and {spec.information} information. `random` plays every game."
        )
