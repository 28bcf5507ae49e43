"""Warm-up: the worker's compiled code is loaded, or compiled, before the first game."""

from __future__ import annotations

import time

import numpy as np
import structlog

from games import positions
from games.core import Game
from selfplay_worker import diagnostics, game_walk
from selfplay_worker.openings import Openings
from selfplay_worker.opposition import make_opponents
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.records import searches
from zerofleet.search import warm_up as warm_up_search
from zerofleet.search.afterstates.warmup import warm_up as warm_up_afterstates
from zerofleet.search.afterstates.warmup import warm_up_action_values

__all__ = ["warm_up"]

log = structlog.get_logger()


def warm_up(game: Game, settings: WorkerSettings, openings: Openings) -> None:
    """Warm up the choice of moves with a model on every seat, openings, diagnostics and opponents, and log the duration.

    Raises `ConfigurationError` for openings that do not suit the game, `InvalidRequest` for agents that cannot play it.
    """
    began = time.monotonic()
    openings.warm_up()
    game_walk.warm_up(game)
    diagnostics.warm_up()
    searches.warm_up()
    if settings.selfplay.mode == "afterstates":
        warm_up_afterstates(game, settings.afterstates)
    elif settings.selfplay.mode == "action_values":
        warm_up_action_values(game, settings.afterstates)
    else:
        warm_up_search(game, settings.search, versions=[1] * game.spec().num_players)
    if settings.selfplay.mode != "search":
        _let_agents_move(game, settings)
    log.info("worker.warm", seconds=round(time.monotonic() - began, 2))


def _let_agents_move(game: Game, settings: WorkerSettings) -> None:
    """Have each agent among the opponents choose a first move, which compiles its code."""
    for opponent in make_opponents(game, settings.afterstates).known:
        if opponent.choose is not None:
            opponent.choose(game, positions.new_state(game), np.random.default_rng(0))
