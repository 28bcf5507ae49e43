"""Publisher: appends finished games to the stream, in order and without loss.

Lanes hand games over without waiting and then wait for room, so a cancelled lane loses no game. While the stream is full or
away, games are queued here, the lanes pause, and each game is retried until the stream has it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack

import structlog

from selfplay_worker.game_register import FinishedGame
from zerofleet.errors import InvalidRequest, Overloaded, PermissionRefused, Unavailable
from zerofleet.rpc.backoff import Backoff
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.streams import GameStream, Publication
from zerofleet.storage.streams.base import leading
from zerofleet.telemetry import metrics, tracing

__all__ = ["Publisher"]

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
NAMED = 20  # maximum number of games listed in a log line
MAX_GAMES, MAX_BYTES = 64, 4 << 20
"""Most games that one call of the stream publishes, and their size, unless a single one is larger."""

log = structlog.get_logger()


class Publisher:
    """A bounded queue and the task that drains it."""

    def __init__(self, stream: GameStream, game: str, *, capacity: int, rng: random.Random) -> None:
        self._stream = stream
        self._published = metrics.GAMES_PUBLISHED.labels(game=game)
        self._capacity = capacity
        self._rng = rng
        self._waiting: deque[FinishedGame] = deque()
        self._changed = asyncio.Condition()
        self._arrived = asyncio.Event()
        self._reached = False

    def hand_over(self, game: FinishedGame) -> None:
        """Queue a finished game; it will be published, or counted and logged as lost."""
        self._waiting.append(game)
        self._arrived.set()
        metrics.PUBLISH_QUEUE.set(len(self._waiting))

    async def room(self) -> None:
        """Wait until the queue is below capacity. Cancellation: no effect."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._capacity)

    async def flush(self) -> None:
        """Wait until the queue is empty. Cancellation: games stay queued."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting)

    async def run(self) -> None:
        """Publish until cancelled. Cancellation: the games that the stream is not known to have are logged as lost."""
        try:
            while True:
                await self._arrived.wait()
                while self._waiting:
                    await self._publish(leading(self._waiting, count=MAX_GAMES, size_bytes=MAX_BYTES))
                    metrics.PUBLISH_QUEUE.set(len(self._waiting))
                    async with self._changed:
                        self._changed.notify_all()
                self._arrived.clear()
        finally:
            if self._waiting:
                metrics.GAMES_ABANDONED.labels(reason="unpublished").inc(len(self._waiting))
                uids = [game.uid for game in self._waiting]
                why = "the stream did not confirm them in time"  # it may have those of the call that was cancelled
                log.error("publisher.games_lost", games=len(uids), game_uids=uids[:NAMED], why=why)

    async def _publish(self, games: Sequence[FinishedGame]) -> None:
        """Publish the first games of the queue, each with a span if it is traced. One that the stream refuses is logged."""
        with ExitStack() as spans:
            made = []
            for game in games:
                span = tracing.follow(
                    "game.publish", parent=game.traceparent, kind=tracing.SpanKind.PRODUCER, game_uid=game.uid
                )
                made.append(Publication(game.uid, game.payload, tracing.traceparent(spans.enter_context(span))))
            try:
                refusal = await self._insist(made)
            finally:
                self._count(games, left={publication.uid for publication in made})
        if refusal is None:
            return
        if len(games) == 1:
            self._refuse(self._waiting.popleft(), refusal)
        else:
            for game in games:
                await self._publish([game])

    def _count(self, games: Sequence[FinishedGame], *, left: Collection[str]) -> None:
        """Count those of the first games of the queue that are in the stream, all but those with the uids `left`."""
        for _ in games:
            self._waiting.popleft()
        self._waiting.extendleft(game for game in reversed(games) if game.uid in left)
        self._published.inc(len(games) - len(left))
        for game in games:
            if game.uid not in left:
                log.debug("game.published", game_uid=game.uid)
                _settle(game)

    async def _insist(self, games: list[Publication]) -> InvalidRequest | None:
        """Retry until the stream has the games, or return its refusal; those that it has leave the list.

        A second copy after an uncertain failure is harmless: the uid is the same.
        """
        crash_point("worker_before_publish")
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        away = False
        while True:
            uid = games[0].uid
            try:
                await self._stream.publish_all(games)
            except (Unavailable, Overloaded, PermissionRefused) as error:
                if isinstance(error, PermissionRefused) and not self._reached:
                    raise  # wrong settings, and no game is lost by ending early; later the password may just be changing
                if not away:
                    log.warning("stream.away", error=str(error), waiting_games=len(self._waiting), game_uid=uid)
                away = True
                await backoff.pause()
                continue
            except InvalidRequest as error:  # a retry cannot succeed, and would block the games behind it
                return error
            self._reached = True
            if away:
                log.info("stream.back", waiting_games=len(self._waiting))
            crash_point("worker_after_publish")
            return None

    def _refuse(self, game: FinishedGame, error: InvalidRequest) -> None:
        metrics.GAMES_ABANDONED.labels(reason="refused").inc()
        log.error("publisher.game_refused", game_uid=game.uid, size_bytes=len(game.payload), error=str(error))
        _settle(game)


def _settle(game: FinishedGame) -> None:
    if game.when_settled is not None:
        game.when_settled()
