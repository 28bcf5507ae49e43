"""Dynamic batching: requests of many callers become batches for one device thread.

The device thread takes the next batch as soon as the previous one is done, so the device never waits for the event loop.
Results return to the loop, which delivers each caller its own rows.

A request that is cancelled or past its deadline leaves the queue without an effect on the rest of its batch. A batch that
fails is evaluated again request by request, so that one request cannot fail another. A request that the queue splits is
answered when its last part is evaluated, and fails with the first part that fails.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import structlog

from inference_server.queueing import BatchReport, CountedNetwork, Part, RequestOutput, RequestQueue, Ticket, Wait
from zerofleet.contracts.priorities import Priority, level_of
from zerofleet.errors import Unavailable

__all__ = ["Batcher"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Result:
    part: Part
    outcome: RequestOutput | Exception


class Batcher:
    """Device thread that serves a queue. Created and used inside one event loop."""

    def __init__(self, queue: RequestQueue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def waiting_rows(self) -> int:
        """Rows that wait for the device."""
        return self._queue.rows

    @property
    def full(self) -> str | None:
        """Reason to reject a request now, None while there is room."""
        if not self._queue.refusing:
            return None
        return f"{self._queue.rows} positions wait for the device; try again later"

    async def evaluate(
        self,
        network: CountedNetwork,
        states: np.ndarray,
        legal: np.ndarray,
        *,
        expires_s: float,
        priority: Priority = Priority.DEFAULT,
    ) -> RequestOutput:
        """Return the output for one request of uint8 [B, packed_bytes] and int16 [B, L].

        The request is dropped when `expires_s` (monotonic) passes before its batch begins. Raises `Overloaded` at once
        when the queue is full, `Unavailable` while closing or when dropped, and the errors of the network.
        Cancellation: the request leaves the queue, or its rows are computed and discarded; others are not affected.
        """
        ticket = self.submit(network, states, legal, expires_s=expires_s, priority=priority)
        try:
            return await ticket.future
        finally:
            if ticket.future.cancelled():
                self.withdraw(ticket)

    def submit(
        self,
        network: CountedNetwork,
        states: np.ndarray,
        legal: np.ndarray,
        *,
        expires_s: float,
        priority: Priority = Priority.DEFAULT,
    ) -> Ticket:
        """Queue a request without waiting; its future gets the output, or the error. Arguments and errors as `evaluate`."""
        now_s = self._clock()
        ticket = Ticket(network, states, legal, now_s, expires_s, self._loop.create_future(), level_of(priority))
        with self._changed:
            if self._closing:
                raise Unavailable("the server is shutting down; use another one or try again later")
            self._queue.put(ticket)
            self._changed.notify()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Cancel a request: it leaves the queue, or its rows are computed and discarded; others are not affected."""
        ticket.future.cancel()
        with self._changed:
            self._queue.discard(ticket)

    async def aclose(self) -> None:
        """Reject new requests, evaluate the queued ones, stop the device thread.

        Cancellation: the thread still stops once its queue is empty.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while batch := self._next_batch():
            began_s = self._clock()
            fresh = [part for part in batch if part.ticket.expires_s > began_s]
            late = Unavailable("the deadline passed while the request waited for the device; allow more time or send less")
            results = [_Result(part, late) for part in batch if part.ticket.expires_s <= began_s]
            report = None
            if fresh:
                results += _evaluate(fresh, self._clock)
                report = _report(fresh, began_s, self._clock() - began_s)
                with self._changed:
                    self._queue.note_speed(report.rows, report.compute_s)
            self._loop.call_soon_threadsafe(self._deliver, batch[0].ticket.network, results, report)

    def _next_batch(self) -> list[Part]:
        """Wait for a batch; return an empty one when the queue is empty and closing."""
        with self._changed:
            while True:
                now_s = self._clock()
                batch = self._queue.take_any() if self._closing else self._queue.take(now_s)
                if batch or self._closing:
                    return batch
                ripe_at_s = self._queue.ripe_at_s()
                self._changed.wait(None if ripe_at_s is None else max(0.0, ripe_at_s - now_s))

    def _deliver(self, network: CountedNetwork, results: list[_Result], report: BatchReport | None) -> None:
        for result in results:
            ticket = result.part.ticket
            if ticket.future.done():  # cancelled during the evaluation, or failed before
                continue
            if isinstance(result.outcome, Exception):
                ticket.future.set_exception(result.outcome)
                with self._changed:
                    self._queue.discard(ticket)
                continue
            ticket.answered.append(result.outcome)
            if result.part.is_last:
                ticket.future.set_result(_joined(ticket.answered))
        if report is not None:
            network.count(report)


def _report(parts: list[Part], began_s: float, compute_s: float) -> BatchReport:
    begun = [part.ticket for part in parts if part.is_first]
    waits = tuple(Wait(ticket.priority, began_s - ticket.arrived_s) for ticket in begun)
    return BatchReport(sum(map(len, parts)), len(parts), waits, compute_s)


def _joined(parts: list[RequestOutput]) -> RequestOutput:
    """Return the output of a request from those of its parts, in order."""
    if len(parts) == 1:
        return parts[0]
    output = tuple(np.concatenate(heads) for heads in zip(*(part.output for part in parts), strict=True))
    return RequestOutput(output, parts[0].queue_s, sum(part.compute_s for part in parts))


def _evaluate(parts: list[Part], clock: Callable[[], float]) -> list[_Result]:
    """Evaluate requests of one version as one batch, and one by one when that fails."""
    began_s = clock()
    try:
        output = parts[0].ticket.network.evaluate([part.states for part in parts], [part.legal for part in parts])
    except Exception as error:
        if len(parts) == 1:
            return [_Result(parts[0], error)]
        log.warning("batch.failed", requests=len(parts), error=str(error))
        return [result for part in parts for result in _evaluate([part], clock)]
    compute_s = clock() - began_s
    results, start = [], 0
    for part in parts:
        rows = slice(start, start + len(part))
        own = tuple(head[rows] for head in output)
        results.append(_Result(part, RequestOutput(own, began_s - part.ticket.arrived_s, compute_s)))
        start += len(part)
    return results
