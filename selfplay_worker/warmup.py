"""Warm-up: load, or the first time compile, everything a game needs, before the first game."""

from __future__ import annotations

import time

import structlog

from games.core import Game
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.search import SearchBlock, SearchSettings

__all__ = ["warm_up"]

log = structlog.get_logger()


def warm_up(game: Game, settings: SearchSettings) -> None:
    """Play one game with tiny searches and uniform evaluations; compiled code depends on types, not on numbers."""
    began = time.monotonic()
    few = min(settings.simulations, 2)
    small = settings.model_copy(
        update={"simulations": few, "fast_simulations": few, "cache_positions": min(settings.cache_positions, 2)}
    )
    block = SearchBlock(game, small, slots=1)
    spec = game.spec()
    block.begin(0, seed=0, versions=[1] * spec.num_players)
    while not block.finished():
        block.absorb(*uniform_answer(block.advance().batch, spec))
    block.take(0)
    log.info("worker.warm", seconds=round(time.monotonic() - began, 2))
