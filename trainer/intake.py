"""Intake: games from the stream to the disk, then into the window, then acknowledged, in this order.

    consume ── check ──► append to the log (fsync) ──► window ──► acknowledge
                 └─────► dead letters

A game whose acknowledgement is lost is delivered again, recognised by its uid, and counted once. While the stream is
unavailable, the disk is full, the model store cannot be read or the learner is behind, the intake waits; nothing is lost.
"""

from __future__ import annotations

import asyncio
import errno
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import structlog

from trainer.record_check import CheckedRecords, RecordCheck
from trainer.replay import Replay
from trainer.traces import intake_spans
from zerofleet.errors import CorruptModel, Overloaded, PermissionRefused, RunDirectoryError, Unavailable
from zerofleet.rpc.backoff import Backoff
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.streams import Delivery, GameStream
from zerofleet.telemetry import metrics

__all__ = ["Intake"]

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
LAST_TRY_S = 2.0
"""Time for a stream that may be away, when it decides no more than whether games are delivered again."""

Result = TypeVar("Result")

log = structlog.get_logger()


class Intake:
    """Consumer of the game stream. `executor` runs the blocking work: validation and disk writes."""

    def __init__(
        self,
        stream: GameStream,
        replay: Replay,
        check: RecordCheck,
        *,
        executor: Executor,
        consumer: str,
        limit: int,
        wait_s: float,
        rng: random.Random,
        on_samples: Callable[[], None],
        is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_samples` is called after each growth of the window; `is_behind`: whether the learner should catch up first."""
        self._stream = stream
        self._replay = replay
        self._check = check
        self._executor = executor
        self._consumer = consumer
        self._limit = limit
        self._wait_s = wait_s
        self._rng = rng
        self._on_samples = on_samples
        self._is_behind = is_behind
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._waiting: tuple[asyncio.Timeout, float] | None = None  # for the stream; seconds that remain after `stop`
        self._reached = False

    async def stop(self) -> None:
        """Finish the current games and take no more; a wait for games ends with those that are in the stream now.

        Cancellation: they are finished nevertheless.
        """
        if self._waiting is not None and not self._stopping.is_set():
            timeout, more_s = self._waiting
            timeout.reschedule(asyncio.get_running_loop().time() + more_s)
        self._stopping.set()
        await self._ended.wait()

    async def run(self) -> None:
        """Take games until `stop`.

        Raises `RunDirectoryError` when the state of the disk is unknown after a failed sync.
        Cancellation: games not yet acknowledged are delivered again to the next consumer.
        """
        try:
            while not self._stopping.is_set():
                await self._wait_for_learner()
                deliveries = await self._consume()
                if deliveries:
                    await self._take_or_leave(deliveries)
        finally:
            self._ended.set()

    async def _take_or_leave(self, deliveries: Sequence[Delivery]) -> None:
        """Take games, or give them back if they cannot be stored during shutdown: the learner still writes a checkpoint.

        Games that the disk refuses are given back, and so are those held when the learner fails: however often the trainer is
        restarted meanwhile, they are no poison.
        """
        try:
            await self.take(deliveries)
        except asyncio.CancelledError:
            if not self._stopping.is_set():  # else they may be what outlasted the grace time
                await self._give_back(deliveries)
            raise
        except (Unavailable, CorruptModel, RunDirectoryError, OSError) as error:
            await self._give_back(deliveries)
            if not self._stopping.is_set() or isinstance(error, RunDirectoryError):
                raise
            log.warning(
                "intake.left_pending",
                error=str(error),
                games=len(deliveries),
                advice="the next start takes them from the stream",
            )

    async def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Try to return games to the stream; if that fails, the delivery counts."""
        with suppress(Unavailable, PermissionRefused, TimeoutError):
            async with asyncio.timeout(LAST_TRY_S):
                await self._stream.give_back(deliveries)

    async def take(self, deliveries: Sequence[Delivery]) -> CheckedRecords:
        """Check games, store the accepted ones, and settle all with the stream; return the outcome of the check.

        Raises `Unavailable`, `CorruptModel` or `OSError` during shutdown when they cannot be checked or stored.
        Cancellation: before the acknowledgement the games stay pending in the stream; a game stored by then is recognised
        when it is delivered again.
        """
        with intake_spans(deliveries) as spans:
            checked = await self._checked(deliveries)
            spans.checked(checked)
            crash_point("trainer_before_write")
            await self._keep(checked)
            crash_point("trainer_after_write_before_ack")
            spans.event("kept")
            await self._settle(checked)
            crash_point("trainer_after_ack")
        metrics.RECORDS_ACCEPTED.inc(len(checked.accepted))
        metrics.RECORDS_DUPLICATE.inc(checked.duplicates)
        return checked

    async def _checked(self, deliveries: Sequence[Delivery]) -> CheckedRecords:
        """Check games, with retries while the store of models or the log cannot be read; during shutdown as `_keep`."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        while True:
            try:
                return await loop.run_in_executor(self._executor, self._check.check, deliveries)
            except (Unavailable, CorruptModel, OSError) as error:
                log.error("intake.not_checked", error=str(error), games=len(deliveries), advice="the trainer tries again")
                if self._stopping.is_set():
                    raise
                await backoff.pause_unless(self._stopping)

    async def _keep(self, checked: CheckedRecords) -> None:
        """Store the accepted games, with retries while the disk is full. During shutdown it gives up: they stay pending."""
        for repeated in checked.repeated:
            log.info("intake.duplicate", game_uid=repeated.uid, deliveries=repeated.deliveries)
        if not checked.accepted:
            return
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        while True:
            try:
                await loop.run_in_executor(self._executor, self._replay.keep, checked.accepted)
            except OSError as error:
                is_at_limit = error.errno == errno.EMFILE
                advice = "raise the hard limit of open files (ulimit -Hn) and restart" if is_at_limit else "free space"
                log.error("intake.disk_refuses", error=str(error), games=len(checked.accepted), advice=advice)
                if self._stopping.is_set():
                    raise
                await backoff.pause_unless(self._stopping)
                continue
            self._on_samples()
            for game in checked.accepted:
                log.debug("intake.kept", game_uid=game.uid)
            return

    async def _settle(self, checked: CheckedRecords) -> None:
        """Acknowledge or dead-letter the games; during shutdown for `LAST_TRY_S` at most.

        An unavailable stream delivers them again, and they are recognised.
        """
        try:
            await self._until_stop(self._acknowledge(checked), more_s=LAST_TRY_S)
        except (Unavailable, Overloaded, PermissionRefused, TimeoutError) as error:
            why = str(error) or "the trainer stops, and the stream has not replied"
            log.warning("intake.not_acknowledged", error=why, games=len(checked.settled))

    async def _acknowledge(self, checked: CheckedRecords) -> None:
        for refusal in checked.refused:
            metrics.RECORDS_REJECTED.labels(reason=refusal.reason).inc()
            level = log.error if refusal.reason == "conflict" else log.warning
            uid = refusal.delivery.uid
            level("intake.refused", game_uid=uid, reason=refusal.reason, text=refusal.text)
            await self._stream.dead_letter(refusal.delivery, reason=f"{refusal.reason}: {refusal.text}")
            log.info("intake.dead_letter", game_uid=uid, deliveries=refusal.delivery.deliveries)
        if checked.settled:
            await self._stream.acknowledge(checked.settled)

    async def _wait_for_learner(self) -> None:
        """Wait while the learner is behind, or until `stop`: games stay in the stream, which holds back the workers."""
        if not self._is_behind():
            return
        log.warning(
            "intake.learner_behind",
            advice="games wait in the stream; have the learner use each one less often, or fewer workers",
        )
        while self._is_behind() and not self._stopping.is_set():
            began = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_s):
                    await self._stopping.wait()
            metrics.INTAKE_WAIT.inc(time.monotonic() - began)

    async def _consume(self) -> list[Delivery]:
        """Request games until the stream replies or `stop`; return an empty list after `wait_s` without games."""
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        away = False
        while not self._stopping.is_set():
            try:
                found = await self._request()
            except (Unavailable, Overloaded, PermissionRefused) as error:
                if isinstance(error, PermissionRefused) and not self._reached:
                    raise  # wrong settings; later the password may just be changing
                if not away:
                    log.warning("stream.away", error=str(error))
                away = True
                await backoff.pause_unless(self._stopping)
                continue
            self._reached = True
            if away:
                log.info("stream.back")
            return found
        return []

    async def _request(self) -> list[Delivery]:
        """Return games as soon as there are some, an empty list after `wait_s`; after `stop` what there is, at once."""
        request = partial(self._stream.consume, consumer=self._consumer, limit=self._limit)
        try:
            return await self._until_stop(request(block_s=self._wait_s), more_s=0.0)
        except TimeoutError:
            if not self._stopping.is_set():
                raise
        return await request(block_s=0.0)

    async def _until_stop(self, call: Coroutine[Any, Any, Result], *, more_s: float) -> Result:
        """Await a call of the stream; raises `TimeoutError` once `more_s` have passed since `stop`, or now after it."""
        try:
            async with asyncio.timeout(more_s if self._stopping.is_set() else None) as timeout:
                self._waiting = timeout, more_s
                return await call
        finally:
            self._waiting = None
