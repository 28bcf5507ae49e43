"""Agent interface: a player that chooses a move within a budget, from the rules alone or with a network's evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from games.core import Game, State
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

__all__ = ["SUREST", "Agent", "AgentMaker", "Choice", "Evaluate", "PolicyAgent", "require_duel", "require_open"]

SUREST = 1.0 - 1e-6
"""Bound of model values in searches: a win by the rules is worth more."""

Evaluate: TypeAlias = Callable[[LeafBatch, ModelVersion], Evaluation]
"""Blocking counterpart of `Evaluator.evaluate`, for agents, which run in their own threads."""


class Choice(NamedTuple):
    """Move chosen by an agent."""

    action: int
    nodes: int = 0
    """Positions visited or simulations run; 0 for agents that do not search."""
    value: float | None = None
    """Expected score of the player to move, if the agent estimates it."""


class Agent(Protocol):
    """Player, stateless between moves: one agent serves many games, concurrently from several threads."""

    name: str
    """Name accepted by `make_agent`, such as `alpha_beta:5`."""

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """Return a legal action for the player to move; `rng` is the only source of randomness. `state` is not modified."""
        ...


@runtime_checkable
class PolicyAgent(Agent, Protocol):
    """Agent with known move probabilities: usable as a policy teacher and as the target of a best response."""

    def policy(self, game: Game, state: State) -> np.ndarray:
        """Return the probability of each legal action, float64 [n], in the order of `games.positions.legal`."""
        ...


class AgentMaker(Protocol):
    """Factory of agents by name: `make_agent`, or a fake in tests."""

    def __call__(self, text: str, game: Game, *, evaluate: Evaluate | None = None) -> Agent:
        """See `zerofleet.agents.make_agent`."""
        ...


def require_duel(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game has two players and perfect information."""
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise InvalidRequest(
            f"{name} plays games of two players with perfect information; {spec.name} has {spec.num_players} players "
            f"and {spec.information} information. `random` plays every game."
        )


def require_open(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game has perfect information."""
    spec = game.spec()
    if spec.information != "perfect":
        raise InvalidRequest(
            f"{name} plays games with perfect information; {spec.name} has {spec.information} information. "
            "`random` plays every game."
        )
