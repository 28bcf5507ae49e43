"""Candidates: what a run publishes, and how the gatekeeper hears of it."""

from __future__ import annotations

import asyncio
import random

import structlog

from zerofleet.errors import InvalidRequest, ModelNotFound, PermissionRefused, Unavailable
from zerofleet.presets import TrainSettings
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import tracing

__all__ = ["Submitter", "samples_between_candidates"]

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0

log = structlog.get_logger()


def samples_between_candidates(samples: int, settings: TrainSettings) -> int:
    """Return how many samples must come after a candidate made at `samples` before the next one."""
    return max(settings.samples_per_candidate, int(settings.candidate_growth * samples))


class Submitter:
    """Offers the newest version to the gatekeeper until that has taken it; an older one that waits still is left out."""

    def __init__(self, gatekeeper: GatekeeperClient, store: ModelStore, model: str, *, rng: random.Random) -> None:
        self._gatekeeper = gatekeeper
        self._store = store
        self._model = model
        self._rng = rng
        self._version = 0
        self._traceparent = ""
        self._offered = asyncio.Event()

    def offer(self, version: int, traceparent: str = "") -> None:
        """Have a published version submitted, as a part of the trace it was made in; repeating a submission is harmless."""
        self._version, self._traceparent = version, traceparent
        self._offered.set()

    async def run(self) -> None:
        """Submit what is offered, for ever. Cancellation: the version may or may not have arrived; offer it again."""
        while True:
            await self._offered.wait()
            self._offered.clear()
            with tracing.follow(
                "candidate.submit", parent=self._traceparent, kind=tracing.SpanKind.CLIENT, version=self._version
            ):
                await self._submit()

    async def _submit(self) -> None:
        """Submit the newest version, again and again while the gatekeeper is away."""
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        away = False
        while True:
            version = self._version
            try:
                sha256 = await asyncio.to_thread(self._store.manifest_sha256, self._model, version)
                candidate = await self._gatekeeper.submit(self._model, version, sha256)
            except Unavailable as error:
                if not away:
                    log.warning("gatekeeper.away", error=str(error), version=version)
                away = True
                await backoff.pause()
                continue
            except (InvalidRequest, ModelNotFound, PermissionRefused) as error:
                log.error("candidate.refused", version=version, error=str(error))
                return
            log.info("candidate.submitted", version=version, status=candidate.status)
            if version == self._version:
                return
