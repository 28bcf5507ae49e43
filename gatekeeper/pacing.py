"""Pacing of measurements: the gate spends at most a share of all evaluations, or of the time.

Of the evaluations:

    credit   += share of the evaluations that the inference servers report since the last look, the gate's included
    credit   -= evaluations of each of the gate's requests; a request waits until the credit is positive

The servers count evaluated positions by version (KServe's ModelStatistics, Zerofleet's and Triton's), so the bound needs no
estimate of speed: over any period the gate's evaluations are at most `share` of all, plus `BURST` and one request. A server
that does not answer adds no credit, and neither does an idle fleet.

Of the time, for self-play that evaluates in the workers, of which no server knows:

    credit   += share of the time since the last request
    credit   -= duration of each of the gate's requests; a request waits until the credit is positive

Requests that overlap count each in full, so a server answers the gate for at most `share` of the time, plus `BURST_S` and the
requests in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.telemetry import metrics

__all__ = ["BURST", "BURST_S", "Budget", "Clock", "Counters", "EvaluationBudget", "PacedEvaluator", "Sleep", "TimeBudget"]

BURST = 1 << 14
"""Largest credit that an idle gate accumulates, in evaluations: about the cost of ten pairs of a short game."""
BURST_S = 2.0
"""Largest credit that an idle gate accumulates, in seconds of requests."""
POLL_S = 0.5

Clock = Callable[[], float]
"""Returns the time in seconds, from any moment on."""
Sleep = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""

Counters = Callable[[], Awaitable[Mapping[tuple[str, int], int]]]
"""Returns the number of evaluated positions by server and version, each since that server loaded that version."""


class Budget(Protocol):
    """Credit of the gate's requests, shared by all measurements of one gatekeeper."""

    async def spend(self, evaluations: int) -> None:
        """Wait until a request of so many evaluations may be sent. Cancellation: nothing is spent."""
        ...

    def took(self, seconds: float) -> None:
        """Note the duration of a request that was answered."""
        ...


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

    def took(self, seconds: float) -> None:
        """See `Budget.took`: durations do not count here."""

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


class TimeBudget:
    """Credit of time, shared by all measurements of one gatekeeper."""

    def __init__(self, share: float, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._share = share
        self._clock = clock
        self._sleep = sleep
        self._began = self._seen = clock()
        self._credit = 0.0
        self._waiting = asyncio.Lock()
        self.spent_s = 0.0
        """Duration of the gate's requests."""

    async def spend(self, evaluations: int) -> None:
        """Wait until the credit is positive. Cancellation: nothing is spent."""
        del evaluations
        async with self._waiting:
            while self._earn() <= 0.0:
                await self._sleep(min(POLL_S, (0.001 - self._credit) / self._share))

    def took(self, seconds: float) -> None:
        """Spend the duration of a request."""
        self._credit -= seconds
        self.spent_s += seconds
        metrics.GATE_SHARE.set(self.spent_s / max(self._clock() - self._began, seconds))

    def _earn(self) -> float:
        """Add the share of the time since the last call, and return the credit."""
        now = self._clock()
        self._credit = min(self._credit + self._share * (now - self._seen), BURST_S)
        self._seen = now
        return self._credit


class PacedEvaluator:
    """Evaluator whose requests wait for the budget."""

    def __init__(self, evaluator: Evaluator, budget: Budget) -> None:
        self._evaluator = evaluator
        self._budget = budget

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`; raises as `EvaluationBudget.spend` too. Cancellation: as there; the credit may be spent."""
        await self._budget.spend(len(batch))
        began = time.monotonic()
        try:
            return await self._evaluator.evaluate(batch, version=version)
        finally:
            self._budget.took(time.monotonic() - began)
