"""Dynamic batching: requests of many callers become batches for one device thread.

The device thread takes the next batch as soon as the device has room for one, so the device never waits for the event loop.
Results return to the loop, which delivers each caller its own rows.

    slots = 1   a batch is evaluated in one call, the next one after it
    slots > 1   up to `slots` batches are on the device at once: begun, computed and collected in the same order. A second
                thread waits for the oldest, so that the device thread meanwhile begins the next one

A request that is cancelled or past its deadline leaves the queue without an effect on the rest of its batch. A batch that
fails is evaluated again request by request, so that one request cannot fail another. A request that the queue splits is
answered when its last part is evaluated, and fails with the first part that fails. A device that is lost fails all requests,
and the process has to end; so does an error of the device thread outside of a network's call, such as exhausted memory.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np
import structlog

from inference_server.flights import Flight, Result, begun, collected, joined, report_of
from inference_server.queueing import BatchReport, CountedNetwork, Part, RequestOutput, RequestQueue, Ticket
from zerofleet.contracts.priorities import Priority, level_of
from zerofleet.errors import DeviceLost, Unavailable
from zerofleet.telemetry import metrics

__all__ = ["Batcher"]

log = structlog.get_logger()

_SWEEP_AFTER_S = 0.05  # after a deadline: one sweep for those close to one another
_LATE = "the deadline passed while the request waited for the device; allow more time or send less"
_LOST = "the device of this server failed, and the server ends; use another one or try again later"


class Batcher:
    """Device thread that serves a queue. Created and used inside one event loop."""

    def __init__(
        self,
        queue: RequestQueue,
        *,
        slots: int = 1,
        on_lost: Callable[[DeviceLost], None] = lambda error: None,
        clock: Callable[[], float] = time.monotonic,
        thread_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`slots`: batches on the device at once (`Backend.slots`). `on_lost` is called on the loop when the device is lost.

        It is also called when the device thread fails, since no request would be answered any more. `thread_clock`: processor
        time of the calling thread.
        """
        self._queue = queue
        self._slots = slots
        self._on_lost = on_lost
        self._clock = clock
        self._thread_clock = thread_clock
        self._loop = asyncio.get_running_loop()
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        """Condition of the device thread: the queue changed, or a batch has landed."""
        self._departed = threading.Condition(lock)
        """Condition of the waiting thread: a batch was begun, or the device thread has ended."""
        self._flights: deque[Flight] = deque()  # in the order in which they were begun
        self._free_s = -math.inf  # when the latest batch left the device
        self._processor_s = 0.0  # of the device thread until then
        self._sweep_at_s = math.inf
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._waiter = threading.Thread(target=self._wait_for_device, name="device-wait", daemon=True) if slots > 1 else None

    async def __aenter__(self) -> Self:
        here = weakref.ref(self)
        metrics.INFERENCE_QUEUE.set_function(lambda: 0 if (found := here()) is None else found.waiting_rows)
        self._thread.start()
        if self._waiter is not None:
            self._waiter.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def waiting_rows(self) -> int:
        """Rows that wait for the device."""
        return self._queue.rows

    def full(self, priority: Priority) -> str | None:
        """Return the reason to reject a request of a priority now, None while there is room."""
        if not self._queue.refusing(level_of(priority)):
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

        The request is dropped when `expires_s` (monotonic) passes before its batch begins, also while the device is busy.
        Raises `Overloaded` at once when the queue is full, `Unavailable` while closing or when dropped, and the errors of the
        network.
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
        if expires_s + _SWEEP_AFTER_S < self._sweep_at_s:
            self._sweep_by(expires_s)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Cancel a request: it leaves the queue, or its rows are computed and discarded; others are not affected."""
        ticket.future.cancel()
        with self._changed:
            self._queue.discard(ticket)

    def _sweep_by(self, deadline_s: float) -> None:
        """Sweep once a deadline has passed, and gRPC, where it has the same one, has ended the call."""
        now_s = self._clock()
        wait_s = max(0.0, deadline_s - now_s) + _SWEEP_AFTER_S
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._sweep_at_s = now_s + wait_s
        self._sweep_timer = self._loop.call_later(wait_s, self._sweep)

    def _sweep(self) -> None:
        """Drop the waiting requests whose deadline has passed: a device that is busy, or hangs, holds neither them nor room."""
        self._sweep_at_s, now_s = math.inf, self._clock()
        with self._changed:
            late = [ticket for ticket in self._queue.waiting() if ticket.expires_s <= now_s]
            for ticket in late:
                self._queue.discard(ticket)
            next_s = min((ticket.expires_s for ticket in self._queue.waiting()), default=math.inf)
        for ticket in late:
            if not ticket.future.done():
                ticket.future.set_exception(Unavailable(_LATE))
        if next_s < math.inf:
            self._sweep_by(next_s)

    async def aclose(self) -> None:
        """Reject new requests, evaluate the queued ones, stop the device thread.

        Cancellation: the thread still stops once its queue is empty.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        for thread in (self._thread, self._waiter):
            if thread is not None and thread.ident is not None:
                await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        """Begin and collect batches until the queue is closed and empty, or the device is lost."""
        try:
            while self._advance():
                pass
        finally:
            with self._changed:
                self._ended = True
                self._departed.notify()

    def _advance(self) -> bool:
        """Begin or collect one batch; return whether another may follow.

        No name for the batch survives the call: a network out of service is freed with its last batch, not with the next one.
        """
        step: Flight | list[Part] | None = None
        try:
            step = self._next_step()
            if step is None:
                return False
            if isinstance(step, Flight):
                self._land(step)
            else:
                self._start(step)
        except DeviceLost as error:
            self._lose(step, error)
            return False
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            self._lose(step, DeviceLost(f"the device thread failed ({reason}); the process ends and has to be restarted"))
            log.exception("device.thread_failed")
            return False
        return True

    def _next_step(self) -> Flight | list[Part] | None:
        """Wait for the oldest batch to land, or for one to begin; None when the queue is closed and all is done.

        A batch that has landed comes first: its callers wait, and its slot is free afterwards.
        """
        with self._changed:
            while True:
                if self._flights and self._flights[0].landed:
                    return self._flights.popleft()
                wait_s = None
                if len(self._flights) < self._slots:
                    now_s = self._clock()
                    batch = self._queue.take_any() if self._closing else self._queue.take(now_s)
                    if batch:
                        return batch
                    if self._closing and not self._flights:
                        return None
                    ripe_at_s = self._queue.ripe_at_s()
                    wait_s = None if ripe_at_s is None else max(0.0, ripe_at_s - now_s)
                self._changed.wait(wait_s)

    def _start(self, batch: list[Part]) -> None:
        began_s = self._clock()
        fresh = [part for part in batch if part.ticket.expires_s > began_s]
        late = Unavailable(_LATE)
        results = [Result(part, late) for part in batch if part.ticket.expires_s <= began_s]
        if results:
            self._send(results, None)
        if not fresh:
            return
        flight = begun(fresh, self._clock, queued=self._slots > 1)
        if flight.landed and not self._flights:
            self._land(flight)
            return
        with self._changed:
            self._flights.append(flight)
            self._departed.notify()

    def _land(self, flight: Flight) -> None:
        """Collect a batch, the oldest one, and send its results."""
        results = collected(flight, self._clock, free_s=self._free_s)
        now_s, processor_s = self._clock(), self._thread_clock()
        report = report_of(flight, now_s - max(flight.began_s, self._free_s), processor_s - self._processor_s)
        self._free_s, self._processor_s = now_s, processor_s
        with self._changed:
            self._queue.note_speed(report.rows, report.compute_s)
        self._send(results, report)

    def _lose(self, step: Flight | list[Part] | None, error: DeviceLost) -> None:
        """Fail the requests of `step` and all others; no further one is accepted."""
        parts = step.parts if isinstance(step, Flight) else step or []
        try:
            with self._changed:
                self._closing = True
                for flight in self._flights:
                    parts = [*parts, *flight.parts]
                self._flights.clear()
                while batch := self._queue.take_any():
                    parts = [*parts, *batch]
            log.error("device.lost", error=str(error), requests=len(parts))
            if parts:
                self._send([Result(part, Unavailable(_LOST)) for part in parts], None)
        finally:  # the process has to end in any case, such as memory that stays exhausted
            self._loop.call_soon_threadsafe(self._on_lost, error)

    def _wait_for_device(self) -> None:
        """Note of each batch, oldest first, that it has landed, until the device thread ends."""
        while (flight := self._next_departed()) is not None:
            flight.wait()
            with self._changed:
                flight.landed = True
                self._changed.notify()
            del flight  # as in `_advance`

    def _next_departed(self) -> Flight | None:
        with self._departed:
            while True:
                oldest = next((flight for flight in self._flights if not flight.landed), None)
                if oldest is not None or self._ended:
                    return oldest
                self._departed.wait()

    def _send(self, results: list[Result], report: BatchReport | None) -> None:
        network = results[0].part.ticket.network
        self._loop.call_soon_threadsafe(self._deliver, network, results, report)

    def _deliver(self, network: CountedNetwork, results: list[Result], report: BatchReport | None) -> None:
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
                ticket.future.set_result(joined(ticket.answered))
        if report is not None:
            network.count(report)
