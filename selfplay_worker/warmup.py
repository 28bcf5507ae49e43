"""Warm-up: load, or the first time compile, everything a game needs, before the first game."""

from __future__ import annotations

import time

import numpy as np
import structlog

from games.core import Game
from zerofleet.evaluators.fakes import uniform_policy
from zerofleet.search import SearchBlock, SearchSettings

__all__ = ["warm_up"]

log = structlog.get_logger()


def warm_up(game: Game, settings: SearchSettings) -> None:
    """Play one game with tiny searches and uniform evaluations; compiled code depends on types, not on numbers."""
    began = time.monotonic()
    small = settings.model_copy(
        update={"simulations": 2, "fast_simulations": 2, "cache_positions": min(settings.cache_positions, 2)}
    )
    block = SearchBlock(game, small, slots=1)
    players = game.spec().num_players
    block.begin(0, seed=0, versions=[1] * players)
    while not block.finished():
        leaves = block.advance().batch
        block.absorb(uniform_policy(leaves.legal), np.zeros((len(leaves), players), dtype=np.float32))
    block.take(0)
    log.info("worker.warm", seconds=round(time.monotonic() - began, 2))
