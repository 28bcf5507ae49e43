"""Opponents of the seat that learns, in play without a tree: the model itself, a frozen version of it, or an agent.

Which of them plays a game depends on the seed of the game alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from games.core import Game, State
from zerofleet.errors import ConfigurationError
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["SELF", "ChooseMove", "FindWay", "Opponent", "Opponents"]

ChooseMove: TypeAlias = Callable[[Game, State, np.random.Generator], int]
"""Choice of a legal move for the player to move; the generator is the only source of randomness."""

FindWay: TypeAlias = Callable[[Game, State], Sequence[int] | None]
"""Moves of the player to move to the end of the game, the fewest if the other side does not interfere; None: not known."""

_STREAM = 5  # separates these draws from others from the seed of a game


class Opponent(NamedTuple):
    """Player of the seat that does not learn."""

    version: int = 0
    """Frozen version of the model; 0: none."""
    agent: str = ""
    """Name of the agent; empty for a model."""
    choose: ChooseMove | None = None
    """Choice of the agent's moves."""


SELF = Opponent()
"""The model of the other seat."""


class Opponents:
    """Opponents of a worker's games, with their frequencies."""

    def __init__(
        self,
        settings: AfterstateSettings,
        agents: Mapping[str, tuple[str, ChooseMove]] | None = None,
        *,
        find_way: FindWay | None = None,
    ) -> None:
        """`agents`: name and choice of moves of each agent, by its spelling in the settings.

        `find_way`: the solver of `endgame=exact`. Raises `ConfigurationError` for an agent or solver that is missing there.
        """
        agents = agents or {}
        if settings.endgame == "exact" and find_way is None:
            raise ConfigurationError("afterstates.endgame=exact, and no solver is used here; set afterstates.endgame=values")
        self.find_way = find_way
        if missing := [text for text in settings.agents if text not in agents]:
            raise ConfigurationError(f"afterstates.opponents has {missing[0]!r}, and no agents are played here")
        players = {"self": SELF} | {f"version:{version}": Opponent(version=version) for version in settings.frozen}
        players |= {text: Opponent(agent=name, choose=choose) for text, (name, choose) in agents.items()}
        self.known = tuple(players[text] for text in settings.opponents) or (SELF,)
        shares = np.array(settings.opponent_shares or [1.0] * len(self.known))
        self._ends = np.cumsum(shares / shares.sum())

    def of_game(self, seed: int) -> Opponent:
        """Return the opponent in the game with this seed."""
        if len(self.known) == 1:
            return self.known[0]
        drawn = float(np.random.default_rng([seed, _STREAM]).random())
        return self.known[min(int(np.searchsorted(self._ends, drawn, side="right")), len(self.known) - 1)]
