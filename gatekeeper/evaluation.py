"""Evaluator of matches: counts evaluations, and attributes errors to a version."""

from __future__ import annotations

import time
from typing import Literal

from zerofleet.errors import CorruptModel, InvalidRequest, ZerofleetError
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.telemetry import metrics

__all__ = ["BrokenVersion", "FailedVersion", "WatchedEvaluator"]


class BrokenVersion(CorruptModel):
    """The output of a version is invalid for any network."""

    def __init__(self, version: int, text: str) -> None:
        super().__init__(text)
        self.version = version


class FailedVersion(ZerofleetError):
    """The evaluation of a version failed for a reason that is neither its fault nor known to be transient."""

    def __init__(self, version: int, text: str) -> None:
        super().__init__(text)
        self.version = version


class WatchedEvaluator:
    """Evaluator that forwards requests, measures them and attributes errors."""

    def __init__(self, evaluator: Evaluator, purpose: Literal["match", "ladder"]) -> None:
        self._evaluator = evaluator
        self._network = metrics.EVALUATIONS.labels(source="network")
        self._spent = metrics.GATE_EVALUATIONS.labels(purpose=purpose)

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`; raises `BrokenVersion` for invalid output, `FailedVersion` for an internal error.

        Cancellation: as there.
        """
        began = time.monotonic()
        try:
            answer = await self._evaluator.evaluate(batch, version=version)
        except CorruptModel as error:
            raise BrokenVersion(version, str(error)) from error
        except ZerofleetError as error:
            if type(error) in (ZerofleetError, InvalidRequest):
                raise FailedVersion(version, f"evaluation of version {version} failed: {error}") from error
            raise
        metrics.EVAL_LATENCY.observe(time.monotonic() - began)
        metrics.EVAL_BATCH_SIZE.observe(len(batch))
        self._network.inc(len(batch))
        self._spent.inc(len(batch))
        return answer
