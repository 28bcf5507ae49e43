"""Queue of the device: selects the requests of the next batch. Plain data, without threads or a clock.

A batch holds one version of one model. Requests wait in groups, one for the small and one for the large requests of each
version; groups are served round-robin, and a batch is filled up with other requests of its version. Hence

  - versions interleave, whatever the load of one of them;
  - a small request waits for at most one batch of each other group, however many blocks are queued;
  - the oldest request of a group is never passed over, so no request starves.

A request as large as a batch is evaluated alone. A group is ripe, ready to be evaluated, when it holds enough rows to keep
the device busy, or when its oldest request has waited `max_delay_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inference_server.network import Network, NetworkOutput
from zerofleet.errors import Overloaded

__all__ = ["BatchReport", "CountedNetwork", "RequestOutput", "RequestQueue", "Ticket"]

# After a request did not fit, admission resumes once 1/ROOM_SHARE of max_rows is free.
ROOM_SHARE = 8
# A request below max_batch / SMALL_SHARE is small. On a CPU 1024 / 8 rows reach 93 % of the best throughput: do not wait.
SMALL_SHARE = 8


class CountedNetwork(Network, Protocol):
    """A network that counts its batches."""

    def count(self, report: BatchReport) -> None:
        """Count a batch; runs on the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Size and timings of one batch."""

    rows: int
    queue_s: tuple[float, ...]  # wait of each request
    compute_s: float


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """Rows of one request in a batch."""

    output: NetworkOutput
    queue_s: float
    compute_s: float  # of the whole batch


@dataclass(eq=False, slots=True)
class Ticket:
    """A request in the queue."""

    network: CountedNetwork
    states: np.ndarray  # uint8 [B, packed_bytes]
    legal: np.ndarray  # int16 [B, L]
    arrived_s: float
    expires_s: float
    """Deadline of the caller; monotonic."""
    future: asyncio.Future[RequestOutput]

    def __len__(self) -> int:
        return len(self.states)


Group = dict[Ticket, None]  # in order of arrival; a dictionary, for removal in O(1) on cancellation


class RequestQueue:
    """Waiting requests, bounded in rows. Not thread-safe: the owner locks."""

    def __init__(self, *, max_batch: int, max_delay_s: float, max_rows: int) -> None:
        self._max_batch = max_batch
        self._max_delay_s = max_delay_s
        self._max_rows = max_rows
        self._enough_rows = max(1, max_batch // SMALL_SHARE)
        self._groups: dict[tuple[CountedNetwork, bool], Group] = {}  # in order of their next turn
        self.rows = 0
        """Number of waiting rows."""
        self._refusing = False

    @property
    def refusing(self) -> bool:
        """Whether a request did not fit and room is still scarce, so that further ones are rejected unread."""
        self._refusing = self._refusing and self.rows > self._max_rows - self._max_rows // ROOM_SHARE
        return self._refusing

    def put(self, ticket: Ticket) -> None:
        """Queue a request; raises `Overloaded` when it does not fit. An empty queue accepts any request."""
        if self.rows and self.rows + len(ticket) > self._max_rows:
            self._refusing = True
            raise Overloaded(
                f"{self.rows} positions wait for the device, {len(ticket)} more exceed {self._max_rows}; try again later"
            )
        self._groups.setdefault(self._group(ticket), {})[ticket] = None
        self.rows += len(ticket)

    def discard(self, ticket: Ticket) -> None:
        """Remove a request if it still waits."""
        group = self._groups.get(self._group(ticket))
        if group is not None and ticket in group:
            self._remove([ticket])

    def take(self, now_s: float) -> list[Ticket]:
        """Remove and return the next batch, empty while no group is ripe."""
        for key in self._groups:
            if self._ripe_at_s(key) <= now_s:
                return self._batch_of(key)
        return []

    def take_any(self) -> list[Ticket]:
        """Remove and return the next batch without waiting for more rows; empty when the queue is."""
        return self._batch_of(next(iter(self._groups))) if self._groups else []

    def ripe_at_s(self) -> float | None:
        """Return the time at which the next group is ripe, None for an empty queue."""
        return min((self._ripe_at_s(key) for key in self._groups), default=None)

    def _group(self, ticket: Ticket) -> tuple[CountedNetwork, bool]:
        return ticket.network, len(ticket) < self._enough_rows

    def _ripe_at_s(self, key: tuple[CountedNetwork, bool]) -> float:
        _, small = key
        if not small:
            return 0.0
        oldest = next(iter(self._groups[key]))
        rows = 0
        for ticket in self._groups[key]:
            rows += len(ticket)
            if rows >= self._enough_rows:
                return 0.0
        return oldest.arrived_s + self._max_delay_s

    def _batch_of(self, key: tuple[CountedNetwork, bool]) -> list[Ticket]:
        network, small = key
        batch = list(_fitting(self._groups[key], self._groups.get((network, not small), {}), self._max_batch))
        group = self._groups.pop(key)
        self._groups[key] = group  # last in the round
        self._remove(batch)
        return batch

    def _remove(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            key = self._group(ticket)
            group = self._groups[key]
            del group[ticket]
            self.rows -= len(ticket)
            if not group:
                del self._groups[key]


def _fitting(group: Group, others: Group, max_batch: int) -> Iterator[Ticket]:
    """Yield the oldest of `group`, then the requests that fit into its batch, in order of arrival."""
    rows = 0
    for waiting in (group, others):
        for ticket in waiting:
            if rows == 0 or rows + len(ticket) <= max_batch:
                rows += len(ticket)
                yield ticket
            if rows >= max_batch:
                return
