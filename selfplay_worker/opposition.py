"""Opponents of a worker's games without a tree, and the solver of their endgame: what the settings name, made once."""

from __future__ import annotations

from games.core import Game
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.by_game.rhombus.homing import way_finder
from zerofleet.search.afterstates.opponents import ChooseMove, Opponents
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["make_opponents"]


def make_opponents(game: Game, settings: AfterstateSettings) -> Opponents:
    """Return the opponents of a game. Raises `ConfigurationError`; `InvalidRequest` for agents that cannot play it."""
    agents = {text: make_agent(text, game) for text in settings.agents}
    find_way = way_finder(game, most_nodes=settings.endgame_nodes) if settings.endgame == "exact" else None
    return Opponents(settings, {text: (agent.name, _moves_of(agent)) for text, agent in agents.items()}, find_way=find_way)


def _moves_of(agent: Agent) -> ChooseMove:
    return lambda game, state, rng: agent.choose(game, state, rng).action
