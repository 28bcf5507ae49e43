"""The queue before the device: which requests make the next batch. Plain data, no threads, no clock of its own.

A batch holds one version of one model. Requests wait in groups, one for the small and one for the large requests of each
version; groups take turns, and a batch is filled with what else fits of its version. So

  - versions interleave, however much one of them is asked for;
  - a small request waits for at most one batch of each other group, however many blocks stand before it;
  - the oldest request of a group is never passed over, so nothing starves.

A request as large as a batch goes alone. A group is ripe, that is may go, when it holds enough rows to keep a device
busy, or when its oldest request has waited `max_delay_s`.
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

# Of the bound: how much must be free before requests are taken again once one did not fit.
ROOM_SHARE = 8
# Of max_batch. On a CPU an eighth of 1024 already reaches 93 % of the best speed, so waiting for more only idles.
SMALL_SHARE = 8


class CountedNetwork(Network, Protocol):
    """A network that keeps account of its batches."""

    def count(self, report: BatchReport) -> None:
        """Take note of a batch; runs on the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What the device did in one go."""

    rows: int
    queue_s: tuple[float, ...]  # wait of each request
    compute_s: float


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """One request's part of a batch."""

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
    """When its caller stops waiting; monotonic."""
    future: asyncio.Future[RequestOutput]

    def __len__(self) -> int:
        return len(self.states)


Group = dict[Ticket, None]  # in order of arrival; a dictionary, so that a cancelled request leaves at once


class RequestQueue:
    """Waiting requests, bounded in rows. Not thread-safe: its owner locks."""

    def __init__(self, *, max_batch: int, max_delay_s: float, max_rows: int) -> None:
        self._max_batch = max_batch
        self._max_delay_s = max_delay_s
        self._max_rows = max_rows
        self._enough_rows = max(1, max_batch // SMALL_SHARE)
        self._groups: dict[tuple[CountedNetwork, bool], Group] = {}  # in order of their next turn
        self.rows = 0
        """Rows that wait."""
        self._refusing = False

    @property
    def refusing(self) -> bool:
        """Whether a request did not fit and there is still little room: further ones need not even be looked at."""
        self._refusing = self._refusing and self.rows > self._max_rows - self._max_rows // ROOM_SHARE
        return self._refusing

    def put(self, ticket: Ticket) -> None:
        """Queue a request; raises `Overloaded` when it does not fit. An empty queue takes any request."""
        if self.rows and self.rows + len(ticket) > self._max_rows:
            self._refusing = True
            raise Overloaded(
                f"{self.rows} positions wait for the device, {len(ticket)} more exceed {self._max_rows}; try again later"
            )
        self._groups.setdefault(self._group(ticket), {})[ticket] = None
        self.rows += len(ticket)

    def discard(self, ticket: Ticket) -> None:
        """Take a request out, if it still waits."""
        group = self._groups.get(self._group(ticket))
        if group is not None and ticket in group:
            self._remove([ticket])

    def take(self, now_s: float) -> list[Ticket]:
        """Take out and return the next batch, empty while no group is ripe."""
        for key in self._groups:
            if self._ripe_at_s(key) <= now_s:
                return self._batch_of(key)
        return []

    def take_any(self) -> list[Ticket]:
        """Take out and return the next batch without waiting for more rows; empty when nothing waits."""
        return self._batch_of(next(iter(self._groups))) if self._groups else []

    def ripe_at_s(self) -> float | None:
        """Return when the next batch may go, None when nothing waits."""
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
        self._groups[key] = group  # its next turn comes after all others
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
    """Yield the oldest of `group`, then whatever fits beside it, in order of arrival."""
    rows = 0
    for waiting in (group, others):
        for ticket in waiting:
            if rows == 0 or rows + len(ticket) <= max_batch:
                rows += len(ticket)
                yield ticket
            if rows >= max_batch:
                return
