"""Pacing of measurements: the gate spends at most a share of all evaluations.

    credit   += share of the evaluations that the inference servers report since the last look, the gate's included
    credit   -= evaluations of each of the gate's requests; a request waits until the credit is positive

The servers count evaluated positions by version (KServe's ModelStatistics, Zerofleet's and Triton's), so the bound needs no
estimate of speed: over any period the gate's evaluations are at most `share` of all, plus `BURST` and one request. A server
that does not answer adds no credit, and neither does an idle fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.telemetry import metrics

__all__ = ["BURST", "Counters", "EvaluationBudget", "PacedEvaluator"]

BURST = 1 << 14
"""Largest credit that an idle gate accumulates, in evaluations: about the cost of ten pairs of a short game."""
POLL_S = 0.5

Counters = Callable[[], Awaitable[Mapping[tuple[str, int], int]]]
"""Returns the number of evaluated positions by server and version, each since that server loaded that version."""


class EvaluationBudget:
    """Credit of evaluations, shared by all measurements of one gatekeeper."""

    def __init__(self, counters: Counters, share: float) -> None:
        self._counters = counters
        self._share = share
        self._seen: dict[tuple[str, int], int] | None = None
        self._credit = 0.0
        self._looking = asyncio.Lock()
        self.total = 0
        """Evaluations of all clients since the first look."""
        self.spent = 0
        """Evaluations of the gate."""

    async def spend(self, evaluations: int) -> None:
        """Wait until the credit is positive, then spend; the last request of a credit may exceed it.

        Raises the errors of the counters: `Unavailable` while no server answers. Cancellation: nothing is spent.
        """
        async with self._looking:
            while self._credit <= 0.0:
                await self._look()
                if self._credit <= 0.0:
                    await asyncio.sleep(POLL_S)
            self._credit -= evaluations
            self.spent += evaluations

    async def _look(self) -> None:
        """Add the share of the evaluations since the last look; the first look only notes the counters."""
        counters = await self._counters()
        if self._seen is not None:
            new = sum(_growth(count, self._seen.get(key, 0)) for key, count in counters.items())
            self.total += new
            self._credit = min(self._credit + self._share * new, BURST)
            metrics.GATE_SHARE.set(self.spent / self.total if self.total else 0.0)
        self._seen = {**(self._seen or {}), **counters}


def _growth(count: int, before: int) -> int:
    """Return the increase of a counter that begins again when a server restarts or reloads a version."""
    return count - before if count >= before else count


class PacedEvaluator:
    """Evaluator whose requests wait for the budget."""

    def __init__(self, evaluator: Evaluator, budget: EvaluationBudget) -> None:
        self._evaluator = evaluator
        self._budget = budget

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`; raises as `EvaluationBudget.spend` too. Cancellation: as there; the credit may be spent."""
        await self._budget.spend(len(batch))
        return await self._evaluator.evaluate(batch, version=version)
