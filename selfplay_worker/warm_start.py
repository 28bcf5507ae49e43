"""Warm start: before self-play, agents play the numbered games of the warm start until there is a champion.

Games are published like those of self-play. A game is marked as played when the stream has or refuses it; the unfinished games
of a killed worker are played by another worker or by its next process.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog

from games.core import Game
from selfplay_worker.champion import AdoptedModel
from selfplay_worker.game_register import FinishedGame, outcome_of
from selfplay_worker.lane import Outlet
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.shares import Shares
from selfplay_worker.stopping import Stop
from selfplay_worker.teaching import Teachers
from zerofleet.presets.warm_start import numbered_game
from zerofleet.search import PlayedGame
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.storage.run_paths import RunPaths
from zerofleet.telemetry import metrics

__all__ = ["WarmStart"]

LOOK_EVERY_S = 0.2
"""Polling interval while other workers play the last games."""
AGAIN_AFTER_S = 900.0
"""First wait for a champion after all games are in the stream. Then games may be lost: all are replayed; duplicates count once.
Each further wait is twice as long, since training may also be slow."""

log = structlog.get_logger()


class WarmStart:
    """Player of a worker's share of the warm start's games."""

    def __init__(self, game: Game, settings: WorkerSettings, *, adopted: AdoptedModel, publisher: Outlet, stop: Stop) -> None:
        """Make the agents. Raises `ConfigurationError`; `InvalidRequest` for agents that cannot play the game."""
        self._game = game
        self._settings = settings
        self._adopted = adopted
        self._publisher = publisher
        self._stop = stop
        self._teachers = Teachers(game, settings.warm_start, opening_plies=settings.selfplay.opening_plies)
        self._shares: Shares | None = None
        self._is_left = False
        self._in_play = 0

    @property
    def is_playing(self) -> bool:
        """Whether a game is in progress."""
        return self._in_play > 0

    def close(self) -> None:
        """Release unfinished games; call after the publisher has stopped."""
        if self._shares is not None:
            self._shares.close()

    async def run(self, *, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """Play until there is a champion or the worker stops; call `meanwhile` while the trainer learns from the games.

        Cancellation: games in progress are dropped.
        """
        wanted, parallel = self._settings.warm_start.games, self._settings.warm_start.parallel
        first = zlib.crc32(self._settings.name.encode())
        self._shares = shares = Shares(RunPaths(self._settings.run_dir).warm_start, wanted, first=first)
        log.info("warm_start.begun", agents=self._settings.warm_start.agents, games=wanted, played=shares.finished)
        threads, wait_s = ThreadPoolExecutor(parallel, thread_name_prefix="agents"), AGAIN_AFTER_S
        try:
            while not self._ended:
                async with asyncio.TaskGroup() as group:
                    for _ in range(parallel):
                        group.create_task(self._play(shares, threads))
                if self._ended:
                    break
                log.info("warm_start.played", games=shares.finished)
                if meanwhile is not None:
                    await meanwhile()
                await self._until_champion(wait_s)
                if not self._ended:
                    log.warning("warm_start.again", waited_s=wait_s, why="there is no champion yet: games may have been lost")
                    shares.forget()
                    wait_s *= 2.0
        finally:
            self._is_left = True
            await in_daemon_thread(threads.shutdown)  # agents end their moves; the event loop does not wait

    @property
    def _ended(self) -> bool:
        return self._stop.no_new_games or self._adopted.version > 0

    async def _until_champion(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s), self._stop.interruptible():
                await self._adopted.available()
        except TimeoutError:
            return

    async def _play(self, shares: Shares, threads: ThreadPoolExecutor) -> None:
        """Play games one by one until none is left."""
        while not self._ended:
            async with self._stop.interruptible():
                await self._publisher.room()
            number = None if self._ended else shares.take()
            if number is not None:
                await self._play_one(number, shares, threads)
            elif shares.finished == self._settings.warm_start.games:
                return
            else:
                async with self._stop.interruptible():
                    await asyncio.sleep(LOOK_EVERY_S)

    async def _play_one(self, number: int, shares: Shares, threads: ThreadPoolExecutor) -> None:
        settings = self._settings
        numbered = numbered_game(self._game, settings.warm_start, run_seed=settings.run_seed, number=number)
        self._in_play += 1
        metrics.GAMES_ACTIVE.inc()
        try:
            played = await asyncio.get_running_loop().run_in_executor(threads, self._teachers.play, numbered, self._interrupted)
        finally:
            self._in_play -= 1
            metrics.GAMES_ACTIVE.dec()
        if played is None:
            shares.give_back(number)
            metrics.GAMES_ABANDONED.labels(reason="drain" if self._stop.now else "stale").inc()
            return
        self._count(played)
        payload = self._teachers.record(numbered, played, worker_id=settings.name)
        # A game that the stream refuses counts as played: it would be refused again.
        self._publisher.hand_over(FinishedGame(numbered.uid, payload, when_settled=partial(shares.finish, number)))

    def _interrupted(self) -> bool:
        return self._is_left or self._stop.now or self._adopted.version > 0

    def _count(self, played: PlayedGame) -> None:
        outcome = outcome_of(played.scores)
        metrics.GAMES_FINISHED.labels(game=played.game.spec().name, outcome=outcome).inc()
        metrics.SELFPLAY_MOVES.inc(len(played.moves) - played.opening_plies)
