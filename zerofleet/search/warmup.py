"""Warm-up: load or compile all code that games of a block need, before the first game."""

from __future__ import annotations

from collections.abc import Sequence

from games.core import Game
from games.positions import legal
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.search.block import SearchBlock
from zerofleet.search.settings import SearchSettings

__all__ = ["warm_up"]


def warm_up(game: Game, settings: SearchSettings, *, versions: Sequence[int]) -> None:
    """Play one game with tiny searches and uniform evaluations; compiled code depends on types, not on values.

    `versions` are as in `SearchBlock.begin`; an `EXTERNAL` seat also warms up `play`, and where all are, no search is compiled.
    """
    few = min(settings.simulations, 2)
    small = settings.model_copy(
        update={"simulations": few, "fast_simulations": few, "cache_positions": min(settings.cache_positions, 2)}
    )
    block = SearchBlock(game, small, slots=1)
    block.begin(0, seed=0, versions=versions)
    while not block.finished():
        if block.searching():
            block.absorb(*uniform_answer(block.advance().batch, game.spec()))
        for slot in block.waiting():
            block.play(slot, legal(game, block.state(slot))[0])
    block.take(0)
