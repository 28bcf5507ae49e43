"""In-memory game stream: the public fake, verified against the same contract as the real ones."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zerofleet.storage.streams.base import (
    DEAD_PAYLOAD_BYTES,
    MAX_REASON_CHARACTERS,
    POISON,
    DeadLetter,
    Delivery,
    GameStream,
    Publication,
    StreamSettings,
    StreamStats,
    require_publishable,
)

__all__ = ["MemoryStream"]


@dataclass(slots=True)
class _Entry:
    uid: str
    payload: bytes
    published_at_s: float
    traceparent: str
    consumer: str | None = None
    delivered_at_s: float = 0.0
    deliveries: int = 0


class _Store:
    """State shared by all handles of a stream."""

    def __init__(self, settings: StreamSettings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.clock = clock
        self.ids = itertools.count(1)
        self.entries: dict[str, _Entry] = {}  # by id, oldest first
        self.dead: deque[DeadLetter] = deque(maxlen=settings.dead_limit)
        self.changed = asyncio.Condition()


class MemoryStream(GameStream):
    """See `GameStream`. `another` returns a second handle to the same stream, as another process would open it."""

    def __init__(self, settings: StreamSettings | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = _Store(settings or StreamSettings(), clock)
        self._held: set[str] = set()  # ids delivered through this handle

    def another(self) -> MemoryStream:
        """Return a new handle to the same entries."""
        handle = MemoryStream(self._store.settings)
        handle._store = self._store
        return handle

    async def publish_all(self, games: list[Publication]) -> None:
        """See `GameStream.publish_all`."""
        for game in games:
            require_publishable(game.uid, game.payload)
        store = self._store
        while games:
            async with store.changed:
                await store.changed.wait_for(lambda: len(store.entries) < store.settings.high_water)
                game = games.pop(0)
                store.entries[str(next(store.ids))] = _Entry(game.uid, game.payload, store.clock(), game.traceparent)
                store.changed.notify_all()

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """See `GameStream.consume`. Cancellation: no effect."""
        store = self._store
        async with store.changed:
            deadline_s = asyncio.get_running_loop().time() + block_s
            while True:
                if deliveries := self._claim(consumer, limit):
                    return deliveries
                left_s = deadline_s - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return []
                try:
                    async with asyncio.timeout(min(left_s, self._until_idle_s())):
                        await store.changed.wait()
                except TimeoutError:
                    pass

    def _claim(self, consumer: str, limit: int) -> list[Delivery]:
        store = self._store
        now_s = store.clock()
        left, new = [], []
        for entry_id, entry in list(store.entries.items()):
            if entry.consumer is None:
                new.append(entry_id)
            elif now_s - entry.delivered_at_s < store.settings.idle_s and (
                entry.consumer != consumer or entry_id in self._held
            ):
                continue
            elif entry.deliveries < store.settings.max_deliveries:
                left.append(entry_id)
            else:
                self._bury(entry_id, POISON)
                store.changed.notify_all()
        return [self._deliver(entry_id, consumer, now_s) for entry_id in [*left, *new][:limit]]

    def _deliver(self, entry_id: str, consumer: str, now_s: float) -> Delivery:
        self._held.add(entry_id)
        entry = self._store.entries[entry_id]
        entry.consumer, entry.delivered_at_s = consumer, now_s
        entry.deliveries += 1
        return Delivery(entry_id, entry.uid, entry.payload, entry.deliveries, entry.traceparent)

    def _until_idle_s(self) -> float:
        """Return the seconds until the next delivered entry becomes idle."""
        store = self._store
        delivered = [entry.delivered_at_s for entry in store.entries.values() if entry.consumer is not None]
        return max(min(delivered, default=store.clock()) + store.settings.idle_s - store.clock(), store.settings.poll_s)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """See `GameStream.give_back`. Cancellation: no effect."""
        async with self._store.changed:
            for delivery in deliveries:
                entry = self._store.entries.get(delivery.entry_id)
                if entry is not None and entry.deliveries == delivery.deliveries:
                    entry.delivered_at_s = -math.inf  # idle
                    entry.deliveries -= 1
            self._store.changed.notify_all()

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """See `GameStream.acknowledge`. Cancellation: no effect."""
        async with self._store.changed:
            self._held.difference_update(entry_ids)
            for entry_id in entry_ids:
                self._store.entries.pop(entry_id, None)
            self._store.changed.notify_all()

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """See `GameStream.dead_letter`. Cancellation: no effect."""
        async with self._store.changed:
            if delivery.entry_id in self._store.entries:
                self._bury(delivery.entry_id, reason)
            self._store.changed.notify_all()

    def _bury(self, entry_id: str, reason: str) -> None:
        entry = self._store.entries.pop(entry_id)
        payload, reason = entry.payload[:DEAD_PAYLOAD_BYTES], reason[:MAX_REASON_CHARACTERS]
        letter = DeadLetter(entry_id, entry.uid, payload, reason, entry.deliveries, len(entry.payload))
        self._store.dead.appendleft(letter)

    async def stats(self) -> StreamStats:
        """See `GameStream.stats`. Cancellation: no effect."""
        pending = [entry.published_at_s for entry in self._store.entries.values() if entry.consumer is not None]
        oldest_s = self._store.clock() - min(pending) if pending else 0.0
        return StreamStats(len(self._store.entries), len(pending), len(self._store.dead), oldest_s)

    async def dead(self, limit: int = 100) -> list[DeadLetter]:
        """See `GameStream.dead`. Cancellation: no effect."""
        return list(self._store.dead)[:limit]

    async def aclose(self) -> None:
        """See `GameStream.aclose`. Cancellation: no effect."""
