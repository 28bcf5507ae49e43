"""Queue of the device: selects the requests of the next batch. Plain data, without threads or a clock.

A batch holds one version of one model. Requests wait in groups, one for the small and one for the large requests of each
version at each priority; the groups of a priority are served round-robin, and a batch is filled up with other requests of its
version. Hence

  - versions interleave, whatever the load of one of them;
  - a small request waits for at most one batch of each other group of its priority, however many blocks are queued;
  - the oldest request of a group is never passed over, so no request starves.

Requests of high priority overtake those of low priority, within two bounds:

  - Share. While both wait, the low priority is owed one row for every `HIGH_SHARE` rows of the high one, where a batch of high
    priority counts as at least the rows that keep the device busy. Its next batch goes first once that many rows are owed.
    A low priority that waits all the time therefore receives a quarter of the rows at least, less one batch.
  - Latency. For `ALERT_S` after a request of high priority, low priority occupies the device for about `SLICE_S` at a time:
    its batches are smaller, a large request is evaluated in several parts, and batches of high priority are filled up with low
    priority to that size only. Without requests of high priority, nothing is split.

A request as large as a batch is evaluated alone. A group is ripe, ready to be evaluated, when it holds enough rows to keep
the device busy, or when its oldest request has waited `max_delay_s`; one of high priority also while requests of low priority
wait, since the device has other work meanwhile.

The queue is bounded in rows. An eighth more is kept for high priority, so that self-play that fills the queue does not shut out
people and matches; nor do they shut out self-play, since high priority fills at most seven eighths of the bound by itself.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from inference_server.network import Network, NetworkOutput
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import Overloaded

__all__ = ["BatchReport", "CountedNetwork", "Part", "RequestOutput", "RequestQueue", "Ticket", "Wait"]

ROOM_SHARE = 8
"""A share of 1/8 of `max_rows`: the room beyond it for high priority, and that to be free again before admission resumes."""
# A request below max_batch / SMALL_SHARE is small. On a CPU 1024 / 8 rows reach 93 % of the best throughput: do not wait.
SMALL_SHARE = 8
HIGH_SHARE = 3
"""Rows of high priority for each row owed to the low priority."""
SLICE_S = 0.02
"""Time for which a batch may occupy the device while requests of high priority arrive."""
ALERT_S = 1.0
"""Time after a request of high priority in which another is expected: those of a search follow one another."""
SPEED_WEIGHT = 0.1  # of the latest batch in the running mean of the device's speed


class CountedNetwork(Network, Protocol):
    """A network that counts its batches."""

    def count(self, report: BatchReport) -> None:
        """Count a batch; runs on the event loop."""
        ...


class Wait(NamedTuple):
    """Time from a request's arrival to its first batch."""

    priority: Priority
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Size and timings of one batch."""

    rows: int
    requests: int
    """Requests with rows in the batch; those split over several batches count in each."""
    waits: tuple[Wait, ...]
    """Waits of the requests that begin in this batch."""
    compute_s: float
    processor_s: float
    """Processor time of the device thread since the batch before."""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """Output for one request."""

    output: NetworkOutput
    queue_s: float
    compute_s: float  # of its whole batches


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
    priority: Priority = Priority.LOW
    """`HIGH` or `LOW`."""
    taken: int = 0
    """Number of rows that have left the queue."""
    answered: list[RequestOutput] = field(default_factory=list)
    """Outputs of its parts so far."""

    def __len__(self) -> int:
        return len(self.states)

    @property
    def left(self) -> int:
        """Number of rows in the queue."""
        return len(self) - self.taken


@dataclass(frozen=True, slots=True)
class Part:
    """Rows `start` to `stop` of a request: its share of a batch."""

    ticket: Ticket
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def is_first(self) -> bool:
        """Whether the request begins with this part."""
        return self.start == 0

    @property
    def is_last(self) -> bool:
        """Whether the request ends with this part."""
        return self.stop == len(self.ticket)

    @property
    def states(self) -> np.ndarray:
        """States of the part, uint8 [rows, packed_bytes]."""
        return self.ticket.states[self.start : self.stop]

    @property
    def legal(self) -> np.ndarray:
        """Legal actions of the part, int16 [rows, L]."""
        return self.ticket.legal[self.start : self.stop]


class _Key(NamedTuple):
    """Name of a group."""

    network: CountedNetwork
    priority: Priority
    small: bool


Group = dict[Ticket, None]  # in order of arrival; a dictionary, for removal in O(1) on cancellation


class RequestQueue:
    """Waiting requests, bounded in rows. Not thread-safe: the owner locks."""

    def __init__(self, *, max_batch: int, max_delay_s: float, max_rows: int) -> None:
        self._max_batch = max_batch
        self._max_delay_s = max_delay_s
        self._room = max_rows // ROOM_SHARE
        self._max_rows = {Priority.LOW: max_rows, Priority.HIGH: max_rows + self._room}
        self._max_high_rows = max_rows - self._room
        self._enough_rows = max(1, max_batch // SMALL_SHARE)
        self._groups: dict[_Key, Group] = {}  # in order of their next turn
        self.rows = 0
        """Number of waiting rows."""
        self._high_rows = 0  # of high priority
        self._refusing: set[Priority] = set()
        self._counted_rows = 0  # of high priority, while low priority waited, that are not yet made up for
        self._alert_until_s = -math.inf
        self._row_s = 0.0  # running mean of the device's time per row; 0 before the first batch

    def refusing(self, priority: Priority) -> bool:
        """Return whether a request did not fit and room is still scarce, so that further ones are rejected unread.

        priority  `HIGH` or `LOW`
        """
        if priority in self._refusing and self._is_free(priority):
            self._refusing.discard(priority)
        return priority in self._refusing

    def _is_free(self, priority: Priority) -> bool:
        """Return whether the room is free at which admission resumes."""
        has_room = self.rows <= self._max_rows[priority] - self._room
        return has_room and (priority is Priority.LOW or self._high_rows <= self._max_high_rows - self._room)

    def put(self, ticket: Ticket) -> None:
        """Queue a request; raises `Overloaded` when it does not fit. An empty queue accepts any request."""
        self._require_room(self.rows, ticket, self._max_rows[ticket.priority], "positions")
        if ticket.priority is Priority.HIGH:
            self._require_room(self._high_rows, ticket, self._max_high_rows, "positions of priority 1")
        self._groups.setdefault(self._key(ticket), {})[ticket] = None
        self.rows += len(ticket)
        if ticket.priority is Priority.HIGH:
            self._high_rows += len(ticket)
            self._alert_until_s = ticket.arrived_s + ALERT_S

    def _require_room(self, rows: int, ticket: Ticket, most: int, what: str) -> None:
        if rows and rows + len(ticket) > most:
            self._refusing.add(ticket.priority)
            raise Overloaded(f"{rows} {what} wait for the device, {len(ticket)} more exceed {most}; try again later")

    def discard(self, ticket: Ticket) -> None:
        """Remove the waiting rows of a request, if there are any."""
        group = self._groups.get(self._key(ticket))
        if group is not None and ticket in group:
            self._remove([Part(ticket, ticket.taken, len(ticket))])
            self._forgive()

    def waiting(self) -> list[Ticket]:
        """Return the requests that have rows in the queue."""
        return [ticket for group in self._groups.values() for ticket in group]

    def take(self, now_s: float) -> list[Part]:
        """Remove and return the next batch, empty while no group is ripe."""
        ripe = [key for key in self._groups if self._ripe_at_s(key) <= now_s]
        return self._take(ripe, self._low_rows(now_s))

    def take_any(self) -> list[Part]:
        """Remove and return the next batch without waiting for more rows; empty when the queue is."""
        return self._take(list(self._groups), self._max_batch)

    def ripe_at_s(self) -> float | None:
        """Return the time at which the next group is ripe, None for an empty queue."""
        return min((self._ripe_at_s(key) for key in self._groups), default=None)

    def note_speed(self, rows: int, compute_s: float) -> None:
        """Learn the speed of the device from a batch. Small ones, whose time is mostly overhead, do not count."""
        if rows >= self._enough_rows:
            row_s = compute_s / rows
            self._row_s += (row_s - self._row_s) * (SPEED_WEIGHT if self._row_s else 1.0)

    def _key(self, ticket: Ticket) -> _Key:
        return _Key(ticket.network, ticket.priority, len(ticket) < self._enough_rows)

    def _ripe_at_s(self, key: _Key) -> float:
        if not key.small or (key.priority is Priority.HIGH and self._has_low()):
            return 0.0
        oldest = next(iter(self._groups[key]))
        rows = 0
        for ticket in self._groups[key]:
            rows += ticket.left
            if rows >= self._enough_rows:
                return 0.0
        return oldest.arrived_s + self._max_delay_s

    def _has_low(self) -> bool:
        return any(key.priority is Priority.LOW for key in self._groups)

    def _low_rows(self, now_s: float) -> int:
        """Return the largest number of rows of a batch with low priority.

        While requests of high priority arrive, the rows of a slice: `max_batch` halved, as long as they keep the device busy.
        """
        rows = self._max_batch
        while now_s <= self._alert_until_s and rows * self._row_s > SLICE_S and rows // 2 >= self._enough_rows:
            rows //= 2
        return rows

    def _take(self, keys: Sequence[_Key], low_rows: int) -> list[Part]:
        """Remove and return the next batch of these groups; batches with low priority have at most `low_rows`."""
        first = {key.priority: key for key in reversed(keys)}
        high, low = first.get(Priority.HIGH), first.get(Priority.LOW)
        turn = low if high is None or (low is not None and self._owed(low, low_rows)) else high
        if turn is None:
            return []
        batch = self._high_batch(turn, low_rows) if turn.priority is Priority.HIGH else self._low_batch(turn, low_rows)
        self._groups[turn] = self._groups.pop(turn)  # last in the round
        self._count(batch)
        self._remove(batch)
        self._forgive()
        return batch

    def _owed(self, low: _Key, low_rows: int) -> bool:
        """Return whether the next batch of a group of low priority precedes those of high priority."""
        oldest = next(iter(self._groups[low]))
        return self._counted_rows >= HIGH_SHARE * min(oldest.left, low_rows)

    def _count(self, batch: Sequence[Part]) -> None:
        """Count a batch, while low priority waits, towards the share of each priority."""
        low = sum(len(part) for part in batch if part.ticket.priority is Priority.LOW)
        if batch[0].ticket.priority is Priority.HIGH and self._has_low():
            self._counted_rows += max(self._enough_rows, sum(map(len, batch)) - low)
        self._counted_rows = max(0, self._counted_rows - HIGH_SHARE * low)

    def _forgive(self) -> None:
        if not self._has_low():
            self._counted_rows = 0

    def _high_batch(self, key: _Key, low_rows: int) -> list[Part]:
        batch = list(_fitting(self._both_sizes(key), self._max_batch))
        rows = sum(map(len, batch))
        low = key._replace(priority=Priority.LOW)
        return [*batch, *_fitting(self._both_sizes(low), min(low_rows, self._max_batch), rows)]

    def _low_batch(self, key: _Key, low_rows: int) -> list[Part]:
        oldest = next(iter(self._groups[key]))
        if low_rows < self._max_batch and oldest.left > low_rows:
            batch = [Part(oldest, oldest.taken, oldest.taken + low_rows)]
        else:
            batch = list(_fitting(self._both_sizes(key), low_rows))
        rows = sum(map(len, batch))
        high = key._replace(priority=Priority.HIGH)
        return [*batch, *_fitting(self._both_sizes(high), self._max_batch, rows)]

    def _both_sizes(self, key: _Key) -> list[Group]:
        """Return a group, and that of the other size."""
        return [self._groups.get(key, {}), self._groups.get(key._replace(small=not key.small), {})]

    def _remove(self, parts: Iterable[Part]) -> None:
        for part in parts:
            ticket = part.ticket
            ticket.taken = part.stop
            self.rows -= len(part)
            if ticket.priority is Priority.HIGH:
                self._high_rows -= len(part)
            if ticket.left == 0:
                key = self._key(ticket)
                group = self._groups[key]
                del group[ticket]
                if not group:
                    del self._groups[key]


def _fitting(groups: Iterable[Group], most: int, rows: int = 0) -> Iterator[Part]:
    """Yield the requests that fit into a batch of `most` rows, `rows` of which are taken, in order of groups and arrival.

    The first request of an empty batch fits in any case.
    """
    for group in groups:
        for ticket in group:
            if rows == 0 or rows + ticket.left <= most:
                rows += ticket.left
                yield Part(ticket, ticket.taken, len(ticket))
            if rows >= most:
                return
