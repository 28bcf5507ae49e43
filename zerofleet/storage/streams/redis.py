"""Game stream in Redis: a stream with one consumer group, with redis-py's asyncio client.

    games         entries: fields `uid`, `payload`, and `traceparent` of a traced game; one consumer group, created at
                  id 0
    games:dead    dead letters: `reason`, `deliveries`, `uid`, the beginning of `payload`, and `bytes`, the length of the
                  whole entry's values or of its payload; the oldest are dropped beyond `dead_limit`

Nothing else is trimmed: XTRIM and MAXLEN would remove unread and pending entries. An acknowledged entry is deleted. Needs
Redis 6.2; run it with `appendonly yes` and `maxmemory-policy noeviction`, or a restart loses accepted games. While Redis is
unreachable, calls retry with jittered back-off, which is logged once.

Rights: a worker needs
~games +ping +xadd +xlen
and a trainer
~games ~games:dead +ping +xadd +xlen +xgroup +xreadgroup +xpending +xclaim +xrange +xrevrange +xack +xdel +eval +time

PING is the client's check of an idle connection.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog
from redis import exceptions as failures

from zerofleet.errors import ConfigurationError, PermissionRefused, Unavailable, ZerofleetError
from zerofleet.rpc.backoff import Backoff
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.streams.base import (
    DEAD_PAYLOAD_BYTES,
    MALFORMED,
    MAX_REASON_CHARACTERS,
    MAX_UID_CHARACTERS,
    POISON,
    DeadLetter,
    Delivery,
    GameStream,
    Publication,
    StreamSettings,
    StreamStats,
    leading,
    require_publishable,
)
from zerofleet.storage.streams.redis_client import connect, heeding_cancellation, shown_address
from zerofleet.telemetry import metrics, tracing

__all__ = ["RedisStream"]

Result = TypeVar("Result")

BLOCK_LIMIT_S = 2.0
"""Maximum duration of a blocking read: well below the socket's timeout; idle entries are claimed in between."""
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 2.0
PAGE = 1000  # ids per command
EXCHANGE_BYTES = 64 << 10
"""Games of one exchange, which a slow link must carry within the socket's timeout, unless a single one is larger."""

# Moves an entry to the dead letters, truncated, atomically and at most once. A Redis out of memory rejects XADD as the first
# write of a script, but not after a write that frees memory: XDEL and XACK come first. If XADD still fails, the letter is
# lost, because a bad game that cannot be buried would be redelivered without end. Foreign fields are dropped.
# KEYS: stream, dead. ARGV: id, group, reason, deliveries, dead_limit, characters of a uid, bytes of a payload.
# Returns the uid and the error of XADD (empty on success); nil if the entry was gone.
BURY = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
redis.call('XACK', KEYS[1], ARGV[2], ARGV[1])
if #found == 0 then return nil end
local fields, uid, payload, bytes = found[1][2], '', nil, 0
for i = 1, #fields, 2 do
    bytes = bytes + #fields[i + 1]
    if fields[i] == 'uid' then uid = string.sub(fields[i + 1], 1, ARGV[6]) end
    if fields[i] == 'payload' then payload = fields[i + 1] end
end
local letter = redis.pcall('XADD', KEYS[2], 'MAXLEN', ARGV[5], '*', 'reason', ARGV[3], 'deliveries', ARGV[4], 'uid', uid,
    'payload', string.sub(payload or '', 1, ARGV[7]), 'bytes', payload and #payload or bytes)
return {uid, type(letter) == 'table' and letter.err or ''}
"""

AWAY = (
    failures.ConnectionError,
    failures.TimeoutError,
    failures.OutOfMemoryError,  # full, with noeviction: the trainer frees memory
    failures.ReadOnlyError,  # a replica, during a failover
    failures.ClusterDownError,
    failures.TryAgainError,
    OSError,
)
REFUSED = (
    failures.AuthenticationError,
    failures.AuthenticationWrongNumberOfArgsError,
    failures.AuthorizationError,
    failures.NoPermissionError,
)
AWAY_TEXTS = ("MISCONF", "NOREPLICAS", "UNBLOCKED", "BUSY ")  # e.g. its disk is full, or a long script runs

log = structlog.get_logger(__name__)


class RedisStream(GameStream):
    """See `GameStream`. Connects on the first call."""

    def __init__(self, url: str, *, name: str, settings: StreamSettings | None = None) -> None:
        """Create it. Raises `ConfigurationError` for an invalid address or an unusable file in it."""
        self._settings = settings or StreamSettings()
        self._rng = random.Random()  # noqa: S311 - jitter, not a secret
        self._address = shown_address(url)
        # redis-py's types do not fix protocol and decoding of a reply; here it is always RESP2 and bytes.
        self._client: Any = connect(url, self._settings, read_timeout_s=BLOCK_LIMIT_S + 5.0)
        self._key, self._dead_key = name, f"{name}:dead"
        self._group = self._settings.group
        self._away = False
        self._met: set[str] = set()  # consumers whose entries of an earlier process were claimed
        self._held: set[str] = set()  # ids delivered to the caller and not acknowledged

    # -- the contract ------------------------------------------------------------------------------------------------

    async def publish_all(self, games: list[Publication]) -> None:
        """See `GameStream.publish_all`. A retry after a lost reply may add the games of one exchange a second time."""
        for game in games:
            require_publishable(game.uid, game.payload)
        while games:
            while (room := self._settings.high_water - await self.length()) <= 0:  # noqa: ASYNC110  (XLEN sends no event)
                await asyncio.sleep(self._rng.uniform(0.5, 1.5) * self._settings.poll_s)
            crash_point("stream_before_publish")
            await self._retrying(partial(self._add, games, room))
            crash_point("stream_after_publish")

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """See `GameStream.consume`. While Redis is unreachable this waits as for an empty stream."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + block_s
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        while True:
            left_s = max(deadline_s - loop.time(), 0.0)
            try:
                deliveries = await self._consume_once(consumer, limit, left_s)
            except Unavailable:
                self._met.discard(consumer)  # a reply may have been lost: its entries are pending with this consumer
                await asyncio.sleep(min(left_s, backoff.next_s()))
                deliveries = []
            except asyncio.CancelledError:
                self._met.discard(consumer)
                raise
            if deliveries or left_s == 0.0:
                self._held.update(delivery.entry_id for delivery in deliveries)
                crash_point("stream_after_claim")
                return deliveries

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """See `GameStream.give_back`."""
        for delivery in deliveries:
            await self._translating(partial(self._give_back, delivery.entry_id, delivery.deliveries))
            self._held.discard(delivery.entry_id)

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """See `GameStream.acknowledge`."""
        for start in range(0, len(entry_ids), PAGE):
            ids = entry_ids[start : start + PAGE]
            crash_point("stream_before_acknowledge")
            await self._retrying(partial(self._remove, ids))
            crash_point("stream_after_acknowledge")
            self._held.difference_update(ids)

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """See `GameStream.dead_letter`."""
        await self._retrying(lambda: self._bury(delivery.entry_id, reason, delivery.deliveries))
        self._held.discard(delivery.entry_id)

    async def length(self) -> int:
        """See `GameStream.length`."""
        length: int = await self._retrying(lambda: self._client.xlen(self._key))
        return length

    async def stats(self) -> StreamStats:
        """See `GameStream.stats`."""
        return await self._retrying(self._stats)

    async def dead(self, limit: int = 100) -> list[DeadLetter]:
        """See `GameStream.dead`."""
        rows = await self._retrying(lambda: self._client.xrevrange(self._dead_key, count=limit))
        return [_dead_letter(entry_id, fields) for entry_id, fields in rows]

    async def aclose(self) -> None:
        """See `GameStream.aclose`. Idempotent. Cancellation: connections may stay open a moment."""
        await self._client.aclose()

    # -- consuming -------------------------------------------------------------------------------------------------

    async def _consume_once(self, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """Return abandoned entries or else new ones, waiting up to `block_s` or `BLOCK_LIMIT_S` for them."""
        if deliveries := await self._translating(lambda: self._take_left(consumer, limit)):
            return deliveries
        block_ms = int(1000 * min(block_s, BLOCK_LIMIT_S, self._settings.idle_s))
        rows = await self._translating(lambda: self._read_new(consumer, limit, block_ms))
        return await self._translating(lambda: self._deliver(rows, dict.fromkeys(_ids(rows), 1)))

    async def _read_new(self, consumer: str, limit: int, block_ms: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        # BLOCK 0 would wait without a deadline.
        reply = await self._client.xreadgroup(self._group, consumer, {self._key: ">"}, count=limit, block=block_ms or None)
        return [row for _, rows in reply or () for row in rows]

    async def _take_left(self, consumer: str, limit: int) -> list[Delivery]:
        """Claim entries of an earlier process of this name, and those idle with any consumer."""
        if consumer not in self._met:
            if own := await self._pending_of(consumer, limit):
                return await self._claim(consumer, own, min_idle_ms=0)
            self._met.add(consumer)
        idle_ms = int(1000 * self._settings.idle_s)
        idle = await self._client.xpending_range(self._key, self._group, "-", "+", limit, idle=idle_ms)
        return await self._claim(consumer, idle, min_idle_ms=idle_ms)

    async def _pending_of(self, consumer: str, limit: int) -> list[dict[str, Any]]:
        """Return up to `limit` entries pending under this name that the caller does not hold."""
        found: list[dict[str, Any]] = []
        first = "-"
        while len(found) < limit:
            page = await self._client.xpending_range(self._key, self._group, first, "+", PAGE, consumername=consumer)
            found += [row for row in page if row["message_id"].decode() not in self._held]
            if len(page) < PAGE:
                break
            first = f"({page[-1]['message_id'].decode()}"
        return found[:limit]

    async def _claim(self, consumer: str, pending: list[dict[str, Any]], *, min_idle_ms: int) -> list[Delivery]:
        """Claim pending entries, unless another consumer just did; bury those delivered too often."""
        counts = {}
        for row in pending:
            if row["times_delivered"] >= self._settings.max_deliveries:
                await self._bury(row["message_id"].decode(), POISON, row["times_delivered"])
            else:
                counts[row["message_id"].decode()] = row["times_delivered"] + 1
        if not counts:
            return []
        rows = await self._client.xclaim(self._key, self._group, consumer, min_idle_ms, list(counts))
        return await self._deliver(rows, counts)

    async def _deliver(self, rows: Sequence[tuple[bytes | None, dict[bytes, bytes]]], counts: dict[str, int]) -> list[Delivery]:
        deliveries = []
        for raw_id, fields in rows:
            if raw_id is None:  # deleted while pending; Redis before 7 names neither
                continue
            entry_id = raw_id.decode()
            uid, payload = fields.get(b"uid"), fields.get(b"payload")
            if uid is None or payload is None or not uid.isascii():
                await self._bury(entry_id, MALFORMED, counts[entry_id])
                continue
            parent = tracing.readable(fields.get(tracing.HEADER.encode()))
            deliveries.append(Delivery(entry_id, uid.decode(), payload, counts[entry_id], parent))
        return deliveries

    # -- commands --------------------------------------------------------------------------------------------------

    async def _give_back(self, entry_id: str, count: int) -> None:
        rows = await self._client.xpending_range(self._key, self._group, entry_id, entry_id, 1)
        if rows and rows[0]["times_delivered"] == count:
            idle_ms = int(1000 * self._settings.idle_s)
            changed = {"idle": idle_ms, "retrycount": count - 1, "justid": True}
            await self._client.xclaim(self._key, self._group, rows[0]["consumer"], 0, [entry_id], **changed)

    async def _remove(self, entry_ids: Sequence[str]) -> None:
        # No MULTI: inside one, a Redis out of memory rejects even commands that free memory. XDEL first: a pending entry
        # that is deleted is dropped when claimed, while one acknowledged and not deleted would stay permanently.
        async with self._client.pipeline(transaction=False) as commands:
            commands.xdel(self._key, *entry_ids)
            commands.xack(self._key, self._group, *entry_ids)
            answers = await commands.execute(raise_on_error=False)  # else the client puts the command before Redis' words
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer

    async def _bury(self, entry_id: str, reason: str, deliveries: int) -> None:
        kept = (self._settings.dead_limit, MAX_UID_CHARACTERS, DEAD_PAYLOAD_BYTES)
        arguments = (entry_id, self._group, reason[:MAX_REASON_CHARACTERS], deliveries, *kept)
        found: list[bytes] | None = await self._client.eval(BURY, 2, self._key, self._dead_key, *arguments)
        if found is None:
            return
        uid, refusal = (text.decode(errors="replace") for text in found)
        if reason in (POISON, MALFORMED):  # the caller logs other reasons with more detail
            log.error("stream.dead_letter", game_uid=uid, reason=reason, deliveries=deliveries)
        if refusal:
            metrics.DEAD_LETTERS_LOST.inc()
            log.error("stream.dead_letter_lost", game_uid=uid, reason=reason, error=refusal)

    async def _stats(self) -> StreamStats:
        async with self._client.pipeline(transaction=False) as commands:
            commands.xlen(self._key)
            commands.xlen(self._dead_key)
            commands.time()
            commands.xpending(self._key, self._group)
            length, dead, now, summary = await commands.execute(raise_on_error=False)
        for answer in (length, dead, now):
            if isinstance(answer, Exception):
                raise answer
        if isinstance(summary, Exception):
            if not _is_missing_group(summary):
                raise summary
            return StreamStats(length, 0, dead, 0.0)  # not consumed yet; statistics do not create the group
        oldest_s = 0.0
        if summary["pending"]:
            published_ms = int(summary["min"].partition(b"-")[0])  # the first half of an entry's id
            oldest_s = max(now[0] + now[1] / 1e6 - published_ms / 1e3, 0.0)
        return StreamStats(length, summary["pending"], dead, oldest_s)

    async def _make_group(self) -> None:
        try:
            await self._client.xgroup_create(self._key, self._group, id="0", mkstream=True)
        except failures.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    # -- trouble ---------------------------------------------------------------------------------------------------

    async def _add(self, games: list[Publication], most: int) -> None:
        """Add the first games in one exchange, and take those that Redis did not refuse out of the list.

        Raises the error of the first one if all are refused.
        """
        adding = leading(games, count=most, size_bytes=EXCHANGE_BYTES)
        async with self._client.pipeline(transaction=False) as commands:
            for game in adding:
                traced = {tracing.HEADER: game.traceparent} if game.traceparent else {}
                commands.xadd(self._key, {"uid": game.uid, "payload": game.payload, **traced})
            replies = await commands.execute(raise_on_error=False)  # it would write the command into the error's text
        refused = [(game, reply) for game, reply in zip(adding, replies, strict=True) if isinstance(reply, Exception)]
        if len(refused) == len(adding):
            raise refused[0][1]
        games[: len(adding)] = [game for game, _ in refused]

    async def _retrying(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Retry until Redis replies; raises `Unavailable` after `retry_for_s`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.retry_for_s
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)
        while True:
            try:
                return await self._translating(call)
            except Unavailable:
                if loop.time() >= deadline_s:
                    raise
            await backoff.pause()

    async def _translating(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Call once, converting Redis's errors to domain errors; create a missing consumer group."""
        try:
            try:
                result = await heeding_cancellation(call)
            except failures.ResponseError as error:
                if not _is_missing_group(error):
                    raise
                await self._make_group()
                result = await heeding_cancellation(call)
        except (failures.RedisError, OSError) as error:
            raise self._in_our_words(error) from error
        if self._away:
            self._away = False
            log.info("stream.back", address=self._address)
        return result

    def _in_our_words(self, error: Exception) -> ZerofleetError:
        # Errors during connection are wrapped in a ConnectionError.
        cause = error.__cause__ if isinstance(error.__cause__, (*REFUSED, ConfigurationError)) else error
        if isinstance(cause, ConfigurationError):
            return cause
        if isinstance(cause, REFUSED):
            return PermissionRefused(f"Redis at {self._address} rejects this client: {cause}; check user and password")
        if not isinstance(error, AWAY) and not str(error).startswith(AWAY_TEXTS):
            return ConfigurationError(
                f"Redis at {self._address}, key {self._key!r}: {error}; want Redis 6.2 or newer and a key without foreign data"
            )
        if not self._away:
            self._away = True
            log.warning("stream.away", address=self._address, error=str(error), why="retrying until it replies")
        return Unavailable(f"Redis at {self._address} is unreachable: {error}; is it running?")


def _is_missing_group(error: Exception) -> bool:
    """Return whether the stream or its group does not exist yet, or was lost in a restart."""
    text = str(error)
    return "NOGROUP" in text or "requires the key to exist" in text


def _ids(rows: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> list[str]:
    return [entry_id.decode() for entry_id, _ in rows]


def _dead_letter(entry_id: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    uid, payload = fields.get(b"uid", b""), fields.get(b"payload", b"")
    reason, count = fields.get(b"reason", b""), fields.get(b"deliveries", b"0")
    size_bytes = int(fields.get(b"bytes", len(payload)))  # letters without the field are complete
    reason_text = reason.decode(errors="replace")
    return DeadLetter(entry_id.decode(), uid.decode(errors="replace"), payload, reason_text, int(count), size_bytes)
