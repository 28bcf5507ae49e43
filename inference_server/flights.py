"""Batches on the device: each is begun, lands, and is collected into one result per part of a request.

A batch that fails is evaluated again request by request, so that one request cannot fail another; `DeviceLost` is raised
instead, since no further call can succeed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import structlog

from inference_server.network import Evaluated, Pending, begin
from inference_server.queueing import BatchReport, Part, RequestOutput, Wait
from zerofleet.errors import DeviceLost

__all__ = ["Flight", "Result", "begun", "collected", "joined", "report_of"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one part."""

    part: Part
    outcome: RequestOutput | Exception


@dataclass(eq=False, slots=True)
class Flight:
    """A batch that was begun and is not yet collected."""

    parts: list[Part]
    began_s: float
    pending: Pending | Exception
    """Its work on the device, or the error with which it could not begin."""
    landed: bool
    """Whether `collected` returns without waiting for the device."""

    def wait(self) -> None:
        """Block until the device is done with it; runs on any thread. An error is left to `collected`."""
        if not isinstance(self.pending, Exception):
            with contextlib.suppress(Exception):
                self.pending.wait()


def begun(parts: list[Part], clock: Callable[[], float], *, queued: bool) -> Flight:
    """Begin a batch of one version; raises `DeviceLost` alone. `queued`: return before it is evaluated, if the network can."""
    began_s = clock()
    network = parts[0].ticket.network
    states, legal = [part.states for part in parts], [part.legal for part in parts]
    try:
        pending = begin(network, states, legal) if queued else Evaluated(network.evaluate(states, legal))
    except DeviceLost:
        raise
    except Exception as error:
        return Flight(parts, began_s, error, landed=True)
    return Flight(parts, began_s, pending, landed=isinstance(pending, Evaluated))


def collected(flight: Flight, clock: Callable[[], float], *, free_s: float = -math.inf) -> list[Result]:
    """Wait for a batch and return the result of each part; raises `DeviceLost`.

    `free_s`: time at which the batch before it had left the device, whose computation does not count as that of this one.
    """
    parts = flight.parts
    try:
        if isinstance(flight.pending, Exception):
            raise flight.pending
        output = flight.pending.collect()
    except DeviceLost:
        raise
    except Exception as error:
        if len(parts) == 1:
            return [Result(parts[0], error)]
        log.warning("batch.failed", requests=len(parts), error=str(error))
        return [result for part in parts for result in collected(begun([part], clock, queued=False), clock)]
    compute_s = clock() - max(flight.began_s, free_s)
    results, start = [], 0
    for part in parts:
        rows = slice(start, start + len(part))
        own = tuple(head[rows] for head in output)
        results.append(Result(part, RequestOutput(own, flight.began_s - part.ticket.arrived_s, compute_s)))
        start += len(part)
    return results


def report_of(flight: Flight, compute_s: float, processor_s: float) -> BatchReport:
    """Return the sizes and timings of a batch."""
    waits = tuple(Wait(part.ticket.priority, flight.began_s - part.ticket.arrived_s) for part in flight.parts if part.is_first)
    return BatchReport(sum(map(len, flight.parts)), len(flight.parts), waits, compute_s, processor_s)


def joined(parts: list[RequestOutput]) -> RequestOutput:
    """Return the output of a request from those of its parts, in order."""
    if len(parts) == 1:
        return parts[0]
    output = tuple(np.concatenate(heads) for heads in zip(*(part.output for part in parts), strict=True))
    return RequestOutput(output, parts[0].queue_s, sum(part.compute_s for part in parts))
