"""Exploration of play without a tree over a run: temperature and epsilon fall by epochs of games.

The games of a run are those that the played version was trained on, stated by its manifest. All workers therefore agree, and a
restart changes nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

import structlog

from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable
from zerofleet.presets import SelfPlaySettings
from zerofleet.rpc.backoff import Backoff
from zerofleet.search.daemon_thread import in_daemon_thread

__all__ = ["ExplorationSchedule"]

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0

log = structlog.get_logger()


class ExplorationSchedule:
    """Share of temperature and epsilon that remains: factor^(games // games of an epoch)."""

    def __init__(self, settings: SelfPlaySettings, games_of: Callable[[int], int], *, rng: random.Random) -> None:
        """`games_of`: returns the games that a version was trained on; it blocks, and is called in threads of its own."""
        self._factor = settings.exploration_decay
        self._epoch_games = settings.exploration_epoch_games
        self._games_of = games_of
        self._rng = rng
        self._version: int | None = None
        self._share = 1.0
        self._reading = asyncio.Lock()  # a version is read once for all lanes

    @property
    def is_constant(self) -> bool:
        """Whether exploration never changes; no version is then looked up."""
        return self._factor == 1.0

    async def share_of(self, version: int) -> float:
        """Return the share with which a version explores, in (0, 1], retrying while the store is unavailable.

        A version that is no longer in the store, or unreadable there, explores as the one before it. Cancellation: no effect.
        """
        async with self._reading:
            if version != self._version:
                self._share = await self._read(version)
                self._version = version
            return self._share

    async def _read(self, version: int) -> float:
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        while True:
            try:
                games = await in_daemon_thread(partial(self._games_of, version))
            except Unavailable as error:
                log.warning("exploration.store_away", version=version, error=str(error))
                await backoff.pause()
                continue
            except (ModelNotFound, CorruptModel) as error:
                log.warning("exploration.version_gone", version=version, share=self._share, error=str(error))
                return self._share
            return float(self._factor ** (games // self._epoch_games))
