"""Candidates: their pace, and their submission to the gatekeeper.

No answer of the gatekeeper and no fault of a stored version ends the trainer. A refusal of the version itself settles it, with
the reason in the log and the metrics; after any other failure the newest version is submitted again, with back-off.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Overloaded, Unavailable, ZerofleetError
from zerofleet.presets import TrainSettings
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import metrics, tracing

__all__ = ["Submitter", "samples_between_candidates"]

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0

# Refusals that a repetition would not change, by their label in the metrics.
_REFUSALS: dict[type[ZerofleetError], str] = {CorruptModel: "corrupt", InvalidRequest: "invalid", ModelNotFound: "missing"}

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
        """Submit the newest version, with retries after failures that are not its fault."""
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        logged: set[type[Exception]] = set()
        while True:
            version = self._version
            try:
                sha256 = await asyncio.to_thread(self._store.manifest_sha256, self._model, version)
                candidate = await self._gatekeeper.submit(self._model, version, sha256)
            except (CorruptModel, InvalidRequest, ModelNotFound) as error:
                _note_refusal(version, error)
                if version == self._version:
                    return
                continue
            except Exception as error:  # a token, a second gatekeeper, an internal error: training goes on meanwhile
                if type(error) not in logged:
                    _note_delay(version, error)
                logged.add(type(error))
                await backoff.pause()
                continue
            log.info("candidate.submitted", version=version, status=candidate.status)
            if version == self._version:
                return


def _note_refusal(version: int, error: ZerofleetError) -> None:
    reason = next(label for cls, label in _REFUSALS.items() if isinstance(error, cls))
    metrics.CANDIDATES_REFUSED.labels(reason=reason).inc()
    advice = "the trainer goes on to its next candidate"
    log.error("candidate.refused", version=version, reason=reason, error=str(error), advice=advice)


def _note_delay(version: int, error: Exception) -> None:
    """Log a failure: an absent gatekeeper recovers by itself, anything else may need an operator."""
    if isinstance(error, Unavailable | Overloaded):
        log.warning("gatekeeper.away", error=str(error), version=version)
        return
    foreseen = isinstance(error, ZerofleetError | OSError)
    advice = "mend the cause; the trainer tries again until then"
    log.error("candidate.not_submitted", version=version, error=str(error), advice=advice, exc_info=None if foreseen else error)
