"""Game stream in an SQLite file: the embedded default, for any number of processes on one machine.

The file uses write-ahead logging, so publishers and consumers do not block each other's reads. Committed games survive a
kill of any process; a power cut may lose the last moments (`synchronous=NORMAL`): a few games, but never an acknowledged
one, as those are on the trainer's disk. Every statement runs in one thread owned by the stream.

A file deleted during operation is noticed at the next statement: each process logs it and goes on with the file at the path.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.streams import columns
from zerofleet.storage.streams.base import (
    DEAD_PAYLOAD_BYTES,
    MALFORMED,
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
from zerofleet.storage.streams.sqlite_file import Transaction, open_file

__all__ = ["SqliteStream"]

Result = TypeVar("Result")

log = structlog.get_logger()

PUBLISH = """
INSERT INTO entries (stream, uid, payload, published_at_s, traceparent)
SELECT :stream, :uid, :payload, :now, :traceparent
WHERE NOT EXISTS (SELECT 1 FROM lengths WHERE stream = :stream AND entries >= :high_water)
"""
SELECT_NEW = """
SELECT id, uid, payload, deliveries, traceparent FROM entries
WHERE stream = :stream AND consumer IS NULL ORDER BY id LIMIT :limit
"""
# Delivered and idle, or pending from an earlier process of this name. A clock set back also makes an entry idle.
SELECT_LEFT = """
SELECT id, uid, payload, deliveries, traceparent FROM entries
WHERE stream = :stream AND consumer IS NOT NULL
    AND (delivered_at_s <= :now - :idle OR delivered_at_s > :now + 1 OR (consumer = :consumer AND handle <> :handle))
ORDER BY id LIMIT :limit
"""
DELIVER = """
UPDATE entries SET consumer = :consumer, handle = :handle, delivered_at_s = :now, deliveries = deliveries + 1 WHERE id = :id
"""
GIVE_BACK = """
UPDATE entries SET delivered_at_s = 0, deliveries = deliveries - 1
WHERE id = ? AND stream = ? AND handle = ? AND deliveries = ?
"""
DELETE = "DELETE FROM entries WHERE id = ? AND stream = ?"
BURY = """
INSERT INTO dead_letters (stream, uid, payload, reason, deliveries, size_bytes)
SELECT stream, uid, substr(payload, 1, ?), ?, deliveries, length(payload) FROM entries WHERE id = ? AND stream = ?
"""
FORGET_OLD_DEAD = """
DELETE FROM dead_letters WHERE stream = :stream
    AND id <= (SELECT id FROM dead_letters WHERE stream = :stream ORDER BY id DESC LIMIT 1 OFFSET :kept)
"""
STATS = """
SELECT coalesce((SELECT entries FROM lengths WHERE stream = :stream), 0), count(*),
    min(CASE WHEN typeof(published_at_s) = 'real' THEN published_at_s END),
    (SELECT count(*) FROM dead_letters WHERE stream = :stream)
FROM entries WHERE stream = :stream AND consumer IS NOT NULL
"""
DEAD = """
SELECT id, CAST(uid AS TEXT), CAST(payload AS BLOB), reason, CAST(deliveries AS INTEGER),
    CAST(coalesce(size_bytes, length(payload)) AS INTEGER) FROM dead_letters
WHERE stream = ? ORDER BY id DESC LIMIT ?
"""


class SqliteStream(GameStream):
    """See `GameStream`. Opens lazily: the first call raises `RunDirectoryError` for a bad file."""

    def __init__(
        self, path: Path, *, name: str, settings: StreamSettings | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._name = name
        self._settings = settings or StreamSettings()
        self._clock = clock  # wall-clock time, shared by processes and across restarts of the machine
        self._handle = secrets.token_hex(8)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stream-sqlite")
        self._connection: sqlite3.Connection | None = None  # made and used in the executor's thread only
        self._opened: tuple[int, int] | None = None  # identity of its file

    # -- the contract ------------------------------------------------------------------------------------------------

    async def publish_all(self, games: list[Publication]) -> None:
        """See `GameStream.publish_all`. Games that have room go into the file together, in one transaction."""
        for game in games:
            require_publishable(game.uid, game.payload)
        while games:
            added = await self._run(partial(self._insert, tuple(games)))
            del games[:added]
            if not added:
                await asyncio.sleep(self._settings.poll_s)

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """See `GameStream.consume`. Cancellation: undelivered entries are returned at once."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + block_s
        while True:
            deliveries = await self._run(lambda: self._claim(consumer, limit), undo=self._give_back)
            left_s = deadline_s - loop.time()
            if deliveries or left_s <= 0:
                return deliveries
            await asyncio.sleep(min(self._settings.poll_s, left_s))

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """See `GameStream.give_back`. Cancellation: all of them or none."""
        await self._run(lambda: self._give_back(deliveries))

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """See `GameStream.acknowledge`. Cancellation: all of them or none."""
        if entry_ids:
            await self._run(lambda: self._delete([int(entry_id) for entry_id in entry_ids]))

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """See `GameStream.dead_letter`."""
        await self._run(lambda: self._bury(int(delivery.entry_id), reason))

    async def stats(self) -> StreamStats:
        """See `GameStream.stats`."""
        return await self._run(self._stats)

    async def dead(self, limit: int = 100) -> list[DeadLetter]:
        """See `GameStream.dead`."""
        return await self._run(lambda: self._dead(limit))

    async def aclose(self) -> None:
        """See `GameStream.aclose`. Idempotent. Cancellation: the file is closed a moment later."""
        try:
            await asyncio.wrap_future(self._executor.submit(self._close))
        except RuntimeError:  # the executor is shut down: closed before
            return
        finally:
            self._executor.shutdown(wait=False)

    # -- one thread ------------------------------------------------------------------------------------------------

    async def _run(self, work: Callable[[], Result], *, undo: Callable[[Result], None] | None = None) -> Result:
        """Run `work` in the stream's thread; if the caller is cancelled meanwhile, run `undo` afterwards."""
        future = self._executor.submit(self._guarded, work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if undo is not None and not future.cancel():
                self._executor.submit(self._follow_up, future, undo)
            raise

    def _follow_up(self, done: Future[Result], undo: Callable[[Result], None]) -> None:
        """Return the entries of a cancelled caller. If that fails too, they are redelivered once idle."""
        if done.exception() is None:
            self._guarded(lambda: undo(done.result()))

    def _guarded(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except (sqlite3.OperationalError, OSError) as error:  # locked, disk full, directory missing: may be transient
            raise Unavailable(f"game stream {self.path}: {error}") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter for a message with a name from the file
            raise RunDirectoryError(f"{self.path} is not a game stream or is damaged: {error}") from error

    def _database(self) -> sqlite3.Connection:
        if self._connection is not None and _identity(self.path) != self._opened:
            # Without this check this process would go on with a file that no other process opens.
            log.error(
                "stream.file_replaced",
                path=str(self.path),
                effect="games that waited in it are lost; the stream goes on in the file at this path",
                advice="delete no file of a running fleet",
            )
            self._close()
        if self._connection is None:
            self._connection = open_file(self.path)
            self._opened = _identity(self.path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _insert(self, games: Sequence[Publication]) -> int:
        """Insert games until the stream is full; return their number."""
        crash_point("stream_before_publish")
        database, added = self._database(), 0
        common = self._common() | {"high_water": self._settings.high_water}
        with Transaction(database):
            for game in games:
                entry = {"uid": game.uid, "payload": game.payload, "traceparent": game.traceparent}
                if database.execute(PUBLISH, common | entry).rowcount != 1:
                    break
                added += 1
        crash_point("stream_after_publish")
        return added

    def _common(self) -> dict[str, object]:
        return {"stream": self._name, "now": self._clock(), "handle": self._handle}

    def _claim(self, consumer: str, limit: int) -> list[Delivery]:
        """Deliver abandoned entries, then new ones; bury those delivered too often."""
        database = self._database()
        where = self._common() | {"consumer": consumer, "idle": self._settings.idle_s, "limit": limit}
        if not any(database.execute(query, where).fetchone() for query in (SELECT_LEFT, SELECT_NEW)):
            return []  # without the write lock: a waiting consumer polls every `poll_s`
        deliveries: list[Delivery] = []
        with Transaction(database):
            for query in (SELECT_LEFT, SELECT_NEW):
                rows = database.execute(query, where | {"limit": limit - len(deliveries)}).fetchall()
                for entry_id, uid, payload, count, traceparent in rows:
                    reason = MALFORMED if not columns.are_whole(uid, payload, count) else POISON
                    if reason == MALFORMED or count >= self._settings.max_deliveries:
                        self._bury_in_transaction(database, entry_id, reason)
                        log.error("stream.dead_letter", game_uid=uid, reason=reason, deliveries=count)
                        continue
                    database.execute(DELIVER, where | {"id": entry_id})
                    deliveries.append(Delivery(str(entry_id), uid, payload, count + 1, columns.parent(traceparent)))
        crash_point("stream_after_claim")
        return deliveries

    def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        with Transaction(self._database()):
            values = [(int(delivery.entry_id), self._name, self._handle, delivery.deliveries) for delivery in deliveries]
            self._database().executemany(GIVE_BACK, values)

    def _delete(self, entry_ids: list[int]) -> None:
        crash_point("stream_before_acknowledge")
        with Transaction(self._database()):
            self._database().executemany(DELETE, [(entry_id, self._name) for entry_id in entry_ids])
        crash_point("stream_after_acknowledge")

    def _bury(self, entry_id: int, reason: str) -> None:
        with Transaction(self._database()):
            self._bury_in_transaction(self._database(), entry_id, reason)

    def _bury_in_transaction(self, database: sqlite3.Connection, entry_id: int, reason: str) -> None:
        database.execute(BURY, (DEAD_PAYLOAD_BYTES, reason[:MAX_REASON_CHARACTERS], entry_id, self._name))
        crash_point("stream_between_bury_and_delete")
        database.execute(DELETE, (entry_id, self._name))
        database.execute(FORGET_OLD_DEAD, {"stream": self._name, "kept": self._settings.dead_limit})

    def _stats(self) -> StreamStats:
        length, pending, oldest_s, dead = self._database().execute(STATS, {"stream": self._name}).fetchone()
        return StreamStats(length, pending, dead, 0.0 if oldest_s is None else max(self._clock() - oldest_s, 0.0))

    def _dead(self, limit: int) -> list[DeadLetter]:
        rows = self._database().execute(DEAD, (self._name, limit)).fetchall()
        return [DeadLetter(str(entry_id), *fields) for entry_id, *fields in rows]


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, None if it is absent."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
