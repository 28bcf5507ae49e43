"""What an agent is: somebody who chooses a move within a budget, by the rules alone or with a network's advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from games.core import Game, State
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

__all__ = ["Agent", "AgentMaker", "Choice", "Evaluate", "PolicyAgent", "require_duel", "require_open"]

Evaluate: TypeAlias = Callable[[LeafBatch, ModelVersion], Evaluation]
"""Evaluates leaves and waits for the answer: `Evaluator.evaluate` for agents, which think in a thread of their own."""


class Choice(NamedTuple):
    """What an agent answers."""

    action: int
    nodes: int = 0
    """Positions looked at, or simulations made; 0 for agents that do not search."""
    value: float | None = None
    """What the agent thinks the player to move will score, if it says."""


class Agent(Protocol):
    """A player. One agent serves many games, also from several threads at once: it keeps no memory of a game."""

    name: str
    """As `make_agent` reads it, such as `alpha_beta:5`."""

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """Return a legal action for the player to move; all luck comes from `rng`. `state` stays as it is."""
        ...


@runtime_checkable
class PolicyAgent(Agent, Protocol):
    """An agent that can say how likely it is to choose each move: a teacher of policies, and one who can be answered best."""

    def policy(self, game: Game, state: State) -> np.ndarray:
        """Return the probability of each legal action, float64 [n], in the order of `games.positions.legal`."""
        ...


class AgentMaker(Protocol):
    """Makes agents from their names: `make_agent`, or a fake in tests."""

    def __call__(self, text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
        """See `zerofleet.agents.make_agent`."""
        ...


def require_duel(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game is one of two players who both see everything."""
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise InvalidRequest(
            f"{name} plays games of two players with perfect information; {spec.name} has {spec.num_players} players "
            f"and {spec.information} information. `random` plays every game."
        )


def require_open(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless all players of the game see everything."""
    spec = game.spec()
    if spec.information != "perfect":
        raise InvalidRequest(
            f"{name} plays games with perfect information; {spec.name} has {spec.information} information. "
            "`random` plays every game."
        )
