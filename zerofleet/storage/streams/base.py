"""Contract of a game stream, whatever its backend.

    worker ── publish ──► stream ── consume ──► trainer ── acknowledge ──► (gone)
                            ▲            │
                            ├─ idle ─────┤
                            ├─ give_back ┤
                                         └── dead_letter (a bad record), "poison" (delivered too often)

Delivery is at least once: an entry stays until it is acknowledged and is redelivered when its consumer died. A game may also
be published twice, when a worker cannot tell whether the first attempt succeeded; the stream keeps both. Consumers drop
duplicates by uid. The stream is never trimmed by length: when it is full, publishers wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import InvalidRequest
from zerofleet.telemetry import tracing

__all__ = [
    "DEAD_PAYLOAD_BYTES",
    "MALFORMED",
    "POISON",
    "DeadLetter",
    "Delivery",
    "GameStream",
    "Publication",
    "StreamSettings",
    "StreamStats",
    "leading",
    "require_publishable",
]

DEAD_PAYLOAD_BYTES = 32 << 10
"""Maximum payload kept of a dead letter; otherwise a few hundred large games would fill the store permanently.

Most games are far smaller. Times `dead_limit` it bounds the dead letters, beside the games in a Redis of 384 MB."""
MAX_UID_CHARACTERS = 128
MAX_REASON_CHARACTERS = 1024
"""Maximum length of a reason; the project's own are shorter."""
POISON = "poison"
"""Reason of a dead letter delivered `max_deliveries` times without acknowledgement."""
MALFORMED = "malformed"
"""Reason of a dead letter without a valid uid, payload or count of deliveries: published by another program, or damaged."""


class StreamSettings(BaseModel):
    """Settings of a stream; all can be set in its address, such as `redis://host/0?high_water=20000`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    high_water: int = Field(default=10_000, ge=1)
    """Number of entries at which publishers wait. In Redis, concurrent publishers may exceed it by the games of a call each."""
    idle_s: float = Field(default=60.0, gt=0)
    """Seconds after which an unacknowledged entry is redelivered. Must exceed the slowest write to the game log."""
    max_deliveries: int = Field(default=5, ge=1)
    """Deliveries after which an entry is buried as poison: it apparently kills its consumers."""
    dead_limit: int = Field(default=1_000, ge=1)
    """Dead letters kept for inspection, each with up to 32 KiB of its game; the oldest are dropped first."""
    poll_s: float = Field(default=0.05, gt=0, lt=1)
    """Polling interval in seconds where the store cannot notify: SQLite, and publishers on a full stream."""
    retry_for_s: float = Field(default=60.0, ge=0)
    """Seconds for which a call retries while the store is unreachable, before it raises `Unavailable`."""
    group: str = Field(default="trainer", min_length=1)
    """Name of the Redis consumer group."""
    password_file: Path | None = None
    """File with the Redis password, read at every connect so that it can be rotated."""
    tls_ca_file: Path | None = None
    """Certificate authority of a `rediss://` server; the system's authorities if unset."""
    tls_certificate_file: Path | None = None
    """Client certificate, if the server requires one."""
    tls_key_file: Path | None = None
    """Key of the client certificate."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Game to be added to a stream."""

    uid: str
    payload: bytes
    traceparent: str = ""  # of the publishing span; empty if it is not recorded


class _Sized(Protocol):
    @property
    def payload(self) -> bytes: ...


Sized = TypeVar("Sized", bound=_Sized)


def leading(games: Iterable[Sized], *, count: int, size_bytes: int) -> list[Sized]:
    """Return the first games, at most `count` with payloads of at most `size_bytes` together, but one in any case."""
    first: list[Sized] = []
    size = 0
    for game in games:
        size += len(game.payload)
        if first and (len(first) == count or size > size_bytes):
            break
        first.append(game)
    return first


@dataclass(frozen=True, slots=True)
class Delivery:
    """Entry as delivered to a consumer."""

    entry_id: str  # for `acknowledge`
    uid: str
    payload: bytes
    deliveries: int  # including this one, without those given back; more than 1 after a crash
    traceparent: str = ""  # of the publishing span; empty if unrecorded, or published by an older worker


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Entry removed from delivery, kept for inspection."""

    entry_id: str
    uid: str
    payload: bytes  # its first `DEAD_PAYLOAD_BYTES`
    reason: str
    deliveries: int
    size_bytes: int  # of the whole game


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Statistics of a stream."""

    length: int  # entries, delivered or not
    pending: int  # of these, delivered and not acknowledged
    dead: int
    oldest_pending_s: float  # age of the oldest pending entry; 0 without one

    @property
    def lag(self) -> int:
        """Number of entries not delivered yet."""
        return max(self.length - self.pending, 0)


class GameStream(Protocol):
    """Queue of finished games between processes.

    Every method raises `Unavailable` when the store is unreachable for `retry_for_s` (`consume` may wait as for an empty
    stream instead) and `PermissionRefused` when the store rejects this client.
    """

    async def publish_all(self, games: list[Publication]) -> None:
        """Add games in their order, and take each out of the list once the stream has it, durably. Waits while it is full.

        Raises `InvalidRequest` when a payload exceeds `MAX_RECORD_BYTES` or a uid is malformed; no game is in the stream then.
        Cancellation, and other errors: those left in the list are to be published again, although some may be in the stream.
        """
        raise NotImplementedError(f"{type(self).__name__} has no publish_all; a stream adds games by it")

    async def publish(self, uid: str, payload: bytes) -> None:
        """Add a game as `publish_all` does, with the current traceparent of `zerofleet.telemetry.tracing`."""
        await self.publish_all([Publication(uid, payload, tracing.traceparent())])

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """Return up to `limit` entries, oldest first; wait at most `block_s` for the first one.

        Entries idle with any consumer come first and, at the first call under a name, those pending from an earlier process
        of that name. Only one task at a time may consume under a name.
        Cancellation: nothing is lost; undelivered entries are delivered again.
        """
        ...

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return entries that cannot be stored for a reason outside of them: any consumer receives them at once, and this
        delivery does not count.

        One try: raises `Unavailable` without waiting, and the entries are delivered again once idle. No effect on entries that
        are gone or were delivered again since. Cancellation: some may stay with this consumer.
        """
        ...

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Remove entries that are durable elsewhere; unknown ids are ignored.

        Cancellation: some may stay and be delivered again.
        """
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Move an entry from the stream to the dead letters, truncated, atomically; no effect if it is gone.

        If the store rejects the dead letter, it is lost and counted: a bad game never blocks good ones.
        Cancellation: it happened completely or not at all.
        """
        ...

    async def length(self) -> int:
        """Return the number of entries, delivered or not; publishers may ask it too. Cancellation: no effect."""
        return (await self.stats()).length

    async def stats(self) -> StreamStats:
        """Return statistics of the stream, for its consumers. Cancellation: no effect."""
        ...

    async def dead(self, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters, newest first. Cancellation: no effect."""
        ...

    async def aclose(self) -> None:
        """Close the connection; entries not acknowledged stay for other consumers."""
        ...


def require_publishable(uid: str, payload: bytes) -> None:
    """Raise `InvalidRequest` unless uid and payload are valid."""
    if not 1 <= len(uid) <= MAX_UID_CHARACTERS or not uid.isprintable():
        raise InvalidRequest(f"uid {uid[:40]!r} must have 1 to {MAX_UID_CHARACTERS} printable characters")
    if len(payload) > MAX_RECORD_BYTES:
        raise InvalidRequest(f"game {uid} has {len(payload)} bytes, at most {MAX_RECORD_BYTES} can be published")
