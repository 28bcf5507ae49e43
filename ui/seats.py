"""Seats of a table: the wish of the person who opens it, and the opponent that it names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import numpy as np

from games.core import Game, State
from ui.catalogue import OpenRun
from ui.model_servers import ModelServers, ServedModel
from ui.searches import Searches
from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.library.opponents import AgentOpponent, ModelOpponent, no_model
from zerofleet.search.settings import default_simulations
from zerofleet.strength.matches.play import waiting_for
from zerofleet.supervisor.entrants import Entrants, entrants, is_model, model_of, version_of

__all__ = ["InUse", "Seats", "seated"]

InUse = Callable[[], AbstractAsyncContextManager[None]]
"""Keeps what an opponent needs to the end of a block."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Wish of the person who opens a table."""

    opponent: str
    """champion, model:N or an agent."""
    seat: int
    """Seat of the person, from 0."""
    simulations: int | None
    """Simulations per move of a model; None is the default of the game."""
    seed: int | None = None
    """Seed of the deal and of the opponent's choices; None draws one."""
    seconds: float | None = None
    """Wall-clock time per move of a model, in place of simulations; None for no budget of time."""
    moves: str = ""
    """Moves from the start to the position where play begins; only with perfect information."""
    start: State | None = None
    """Drawn position in place of the start, before the moves."""


async def seated(
    seats: Seats, game: Game, run: OpenRun | None, seed: int, servers: ModelServers, searches: Searches
) -> tuple[ModelOpponent | AgentOpponent, InUse]:
    """Return the opponent, and what each question to it must enter: the server of its model, if it asks one.

    Raises `InvalidRequest`, `ModelNotFound`. Cancellation: no effect.
    """
    if not is_model(seats.opponent):
        _require_no_budget(seats)
        found = await asyncio.to_thread(_entrants, seats.opponent, game, run)
        model = None if run is None or not found.runs else ServedModel(servers, run, *found.runs[0].versions)
        agent = make_agent(found.players[0].text, game, evaluate=None if model is None else waiting_for(model))
        opponent = AgentOpponent(game, agent, np.random.default_rng(seed), in_thread=searches.run)
        return opponent, contextlib.nullcontext if model is None else model.in_use
    if run is None:
        raise InvalidRequest(f"{seats.opponent} is a model: choose the run that it belongs to, or an agent such as random")
    version = await asyncio.to_thread(version_of, seats.opponent, run.paths, game)
    served = ServedModel(servers, run, version)
    simulations = default_simulations(game.spec()) if seats.simulations is None else seats.simulations
    adviser = ModelOpponent(game, served, name=seats.opponent, version=version, simulations=simulations, limit_s=seats.seconds)
    return adviser, served.in_use


def _require_no_budget(seats: Seats) -> None:
    """Raise `InvalidRequest` for a budget of an agent, which would have no effect."""
    for name, given in (("simulations", seats.simulations), ("seconds", seats.seconds)):
        if given is not None:
            raise InvalidRequest(f"{name}={given}: {no_model(seats.opponent)}; leave {name} out")


def _entrants(name: str, game: Game, run: OpenRun | None) -> Entrants:
    if run is None and model_of(name):  # else one would be looked for outside of these pages
        raise InvalidRequest(f"{name} plays with a model: choose the run that it belongs to")
    return entrants([name], game, None if run is None else run.paths.root, note=lambda text: None)
