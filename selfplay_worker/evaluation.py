"""Evaluations that survive an outage of the server: lanes wait, and only games of a retired version are dropped.

Each kind of failure is retried in exactly one layer:

    the server is overloaded or away       here, without a limit: the worker's evaluator is made with `retry_s=0`
    the adopted version, or one that       here, without a limit; the log states for how long a version that stays, such as a
    stays, is not loaded yet               frozen opponent, has been missing; each lane with a game against it stands still
    one replica of several lacks a version `zerofleet.evaluators.kserve`, whose next call reaches another replica
    another version is not served          nowhere: it will not come back, and its games are dropped
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from dataclasses import dataclass

import structlog

from games.core import GameSpec
from selfplay_worker.champion import AdoptedModel
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    PermissionRefused,
    ZerofleetError,
)
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.rpc.backoff import Backoff
from zerofleet.search import Leaves
from zerofleet.telemetry import metrics

__all__ = ["PatientEvaluator"]

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0
TELL_AFTER_S = 5.0  # without an evaluation
TELL_EVERY_S = 60.0  # that a version is missing

log = structlog.get_logger()


@dataclass(slots=True)
class _Missing:
    """Version that stays in service and is awaited."""

    since_s: float
    tell_s: float
    """Time of the next line in the log."""


class PatientEvaluator:
    """Evaluator that retries until it succeeds; shared by the lanes of a worker."""

    def __init__(
        self,
        evaluator: Evaluator,
        adopted: AdoptedModel,
        *,
        spec: GameSpec,
        rng: random.Random,
        lasting: Collection[int] = (),
    ) -> None:
        """Wrap `evaluator`, which must not itself retry the failures retried here; `lasting`: versions that stay in service."""
        self._evaluator = evaluator
        self._adopted = adopted
        self._lasting = frozenset(lasting)
        self._spec = spec
        self._rng = rng
        self._network = metrics.EVALUATIONS.labels(source="network")
        self._failing_since_s: float | None = None
        self._told = False
        self._missing: dict[int, _Missing] = {}

    async def evaluate(self, leaves: Leaves) -> tuple[Evaluation, set[int]]:
        """Return the evaluation of one or more leaves, and their versions that are no longer served.

        Leaves of such versions get a uniform evaluation, which must not decide a move.
        Cancellation: the leaves still wait; call again.
        """
        gone: set[int] = set()

        async def ask(batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
            found = await self._ask(batch, version)
            if found is not None:
                return found
            gone.add(version)
            policy, value, extra_heads = uniform_answer(batch, self._spec)
            return Evaluation(policy, value, version, extra_heads)

        return await evaluate_by_version(ask, leaves.batch, leaves.versions), gone

    async def _ask(self, batch: LeafBatch, version: ModelVersion) -> Evaluation | None:
        """Return the evaluation, or None when the version is neither served nor the adopted one, nor one that stays."""
        backoff: Backoff | None = None
        while True:
            began_s = time.monotonic()
            try:
                found = await self._evaluator.evaluate(batch, version=version)
            except (InvalidRequest, PermissionRefused, ConfigurationError):  # a repetition changes nothing, a restart may
                raise
            except ZerofleetError as error:
                # The adopted version may still be loading. Another one will not come back.
                is_missing = isinstance(error, ModelNotFound | CorruptModel)
                if is_missing and version not in {self._adopted.version, *self._lasting}:
                    log.warning("version.gone", version=version, error=str(error))
                    return None
                if is_missing and version != self._adopted.version:
                    self._note_missing(version, error, began_s)
                else:
                    self._note_failure(error, began_s)
                backoff = backoff or Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
                await backoff.pause()
                metrics.count_eval_retry(error)
                continue
            self._missing.pop(version, None)
            self._note_success(len(batch), time.monotonic() - began_s)
            return found

    def _note_missing(self, version: int, error: Exception, began_s: float) -> None:
        """Log at intervals that a version is awaited: every lane with a game against it stands still, in the end all lanes."""
        now_s = time.monotonic()
        missing = self._missing.setdefault(version, _Missing(began_s, began_s + TELL_AFTER_S))
        if now_s >= missing.tell_s:
            missing.tell_s = now_s + TELL_EVERY_S
            log.warning(
                "version.awaited",
                version=version,
                waited_s=round(now_s - missing.since_s, 1),
                error=str(error),
                effect="each lane with a game against it stands still, and soon all do",
                advice="store the version and keep it in service with models.pinned, or name another in afterstates.opponents",
            )

    def _note_failure(self, error: Exception, began_s: float) -> None:
        if self._failing_since_s is None:
            self._failing_since_s = began_s
        if not self._told and time.monotonic() - self._failing_since_s >= TELL_AFTER_S:
            log.warning("inference.away", error=str(error))
            self._told = True

    def _note_success(self, positions: int, seconds: float) -> None:
        if self._told:
            log.info("inference.back")
        self._failing_since_s, self._told = None, False
        self._network.inc(positions)
        metrics.EVAL_BATCH_SIZE.observe(positions)
        metrics.EVAL_LATENCY.observe(seconds)
