"""Candidates: their pace, and their submission to the gatekeeper."""

from __future__ import annotations

import asyncio
import random

import structlog

from zerofleet.errors import InvalidRequest, ModelNotFound, Overloaded, PermissionRefused, Unavailable
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
    """Return the number of samples that must arrive between a candidate made at `samples` and the next one."""
    return max(settings.samples_per_candidate, int(settings.candidate_growth * samples))


class Submitter:
    """Submits the newest version until the gatekeeper accepts or refuses it; an older one still waiting is dropped."""

    def __init__(self, gatekeeper: GatekeeperClient, store: ModelStore, model: str, *, rng: random.Random) -> None:
        self._gatekeeper = gatekeeper
        self._store = store
        self._model = model
        self._rng = rng
        self._version = 0
        self._traceparent = ""
        self._offered = asyncio.Event()

    def offer(self, version: int, traceparent: str = "") -> None:
        """Queue a published version for submission, in the trace of its export. Submission is idempotent."""
        self._version, self._traceparent = version, traceparent
        self._offered.set()

    async def run(self) -> None:
        """Submit offered versions until cancelled. Cancellation: the version may or may not have arrived; offer it again."""
        while True:
            await self._offered.wait()
            self._offered.clear()
            with tracing.follow(
                "candidate.submit", parent=self._traceparent, kind=tracing.SpanKind.CLIENT, version=self._version
            ):
                await self._submit()

    async def _submit(self) -> None:
        """Submit the newest version, with retries while the gatekeeper is unavailable or overloaded."""
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        away = False
        while True:
            version = self._version
            try:
                sha256 = await asyncio.to_thread(self._store.manifest_sha256, self._model, version)
                candidate = await self._gatekeeper.submit(self._model, version, sha256)
            except (Unavailable, Overloaded) as error:
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
