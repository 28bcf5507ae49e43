"""Publisher: finished games, in order, into the stream; none is lost on the way.

Lanes hand games over without waiting and then wait for room: a cancelled lane has lost nothing. While the stream is
full or away, the games wait here, the lanes pause, and every game is tried again until the stream has it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque

import structlog

from selfplay_worker.game_register import FinishedGame
from zerofleet.errors import InvalidRequest, Overloaded, Unavailable
from zerofleet.rpc.backoff import Backoff
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.streams import GameStream
from zerofleet.telemetry import metrics, tracing

__all__ = ["Publisher"]

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
NAMED = 20  # games of a line at most

log = structlog.get_logger()


class Publisher:
    """A bounded queue and the task that empties it."""

    def __init__(self, stream: GameStream, game: str, *, capacity: int, rng: random.Random) -> None:
        self._stream = stream
        self._published = metrics.GAMES_PUBLISHED.labels(game=game)
        self._capacity = capacity
        self._rng = rng
        self._waiting: deque[FinishedGame] = deque()
        self._changed = asyncio.Condition()
        self._arrived = asyncio.Event()

    def hand_over(self, game: FinishedGame) -> None:
        """Take a finished game; it will be published, or be counted and logged as lost."""
        self._waiting.append(game)
        self._arrived.set()
        metrics.PUBLISH_QUEUE.set(len(self._waiting))

    async def room(self) -> None:
        """Wait until fewer games wait than the queue shall hold. Cancellation: nothing happened."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._capacity)

    async def flush(self) -> None:
        """Wait until no game waits. Cancellation: games still wait."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting)

    async def run(self) -> None:
        """Publish for ever. Cancellation: the game under way may or may not be in the stream; those left are logged."""
        try:
            while True:
                await self._arrived.wait()
                while self._waiting:
                    game = self._waiting[0]
                    with tracing.follow(
                        "game.publish", parent=game.traceparent, kind=tracing.SpanKind.PRODUCER, game_uid=game.uid
                    ):
                        await self._publish(game)
                    self._waiting.popleft()
                    metrics.PUBLISH_QUEUE.set(len(self._waiting))
                    async with self._changed:
                        self._changed.notify_all()
                self._arrived.clear()
        finally:
            if self._waiting:
                metrics.GAMES_ABANDONED.labels(reason="unpublished").inc(len(self._waiting))
                uids = [game.uid for game in self._waiting]
                why = "the stream did not take them in time"
                log.error("publisher.games_lost", games=len(uids), game_uids=uids[:NAMED], why=why)

    async def _publish(self, game: FinishedGame) -> None:
        """Try until the stream has the game. A second copy after an uncertain failure is harmless: the uid is the same."""
        crash_point("worker_before_publish")
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        away = False
        while True:
            try:
                await self._stream.publish(game.uid, game.payload)
            except (Unavailable, Overloaded) as error:
                if not away:
                    log.warning("stream.away", error=str(error), waiting_games=len(self._waiting), game_uid=game.uid)
                away = True
                await backoff.pause()
                continue
            except InvalidRequest as error:  # no stream will ever take it; the games behind it shall not suffer
                metrics.GAMES_ABANDONED.labels(reason="refused").inc()
                log.error("publisher.game_refused", game_uid=game.uid, size_bytes=len(game.payload), error=str(error))
                return
            if away:
                log.info("stream.back", waiting_games=len(self._waiting))
            log.debug("game.published", game_uid=game.uid)
            crash_point("worker_after_publish")
            self._published.inc()
            if game.when_published is not None:
                game.when_published()
            return
