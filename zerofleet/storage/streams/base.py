"""What a game stream is, whichever store stands behind it.

    worker ── publish ──► stream ── consume ──► trainer ── acknowledge ──► (gone)
                            ▲            │
                            └─ idle ─────┤
                                         └── dead_letter (a bad record), "poison" (delivered too often)

Delivery is at least once: an entry stays until it is acknowledged, and it is delivered again when its consumer died. A
game may also be published twice, when a worker could not know whether the first time counted; the stream keeps both.
Whoever consumes drops what it has already, by uid. Nothing is ever trimmed by length: a full stream makes publishers wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import InvalidRequest

__all__ = [
    "DEAD_PAYLOAD_BYTES",
    "POISON",
    "DeadLetter",
    "Delivery",
    "GameStream",
    "StreamSettings",
    "StreamStats",
    "require_publishable",
]

DEAD_PAYLOAD_BYTES = 32 << 10
"""Of a game that was given up only its beginning is kept, or a few hundred large ones would fill the store for good.

Most games are far smaller. Times `dead_limit` it is what all dead letters take, beside the games in a Redis of 384 MB."""
MAX_UID_CHARACTERS = 128
MAX_REASON_CHARACTERS = 1024
"""Most of a reason that is kept; ours are shorter."""
POISON = "poison"
"""Reason of a dead letter that was delivered `max_deliveries` times and never acknowledged."""


class StreamSettings(BaseModel):
    """How a stream behaves; each can be given in its address, such as `redis://host/0?high_water=5000`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    high_water: int = Field(default=10_000, ge=1)
    """Entries at which publishers wait. Several at once may pass it by one each."""
    idle_s: float = Field(default=60.0, gt=0)
    """Seconds after which a delivered entry that was not acknowledged is delivered again. Above the slowest store."""
    max_deliveries: int = Field(default=5, ge=1)
    """Deliveries after which an entry is given up as poison: something in it kills whoever takes it."""
    dead_limit: int = Field(default=1_000, ge=1)
    """Dead letters that are kept for inspection, each with up to 32 KiB of its game; beyond it the oldest go."""
    poll_s: float = Field(default=0.05, gt=0, lt=1)
    """Seconds between two looks where the store cannot wake a waiter: SQLite, and publishers on a full stream."""
    retry_for_s: float = Field(default=60.0, ge=0)
    """Seconds a call goes on trying while the store is away, before it raises `Unavailable`."""
    group: str = Field(default="trainer", min_length=1)
    """Name of the Redis consumer group."""
    password_file: Path | None = None
    """File with the Redis password, read at every connect so that it can be changed."""
    tls_ca_file: Path | None = None
    """Certificate authority that signed the certificate of a `rediss://` server; the system's when not given."""
    tls_certificate_file: Path | None = None
    """This client's certificate, where the server wants one."""
    tls_key_file: Path | None = None
    """Key of this client's certificate."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An entry as a consumer gets it."""

    entry_id: str  # for `acknowledge`
    uid: str
    payload: bytes
    deliveries: int  # this one included; more than 1 after a crash
    traceparent: str = ""  # of the span it was published in; empty when that was not recorded, or published by an older worker


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An entry that was given up, kept for inspection."""

    entry_id: str
    uid: str
    payload: bytes  # its first `DEAD_PAYLOAD_BYTES`
    reason: str
    deliveries: int
    size_bytes: int  # of the whole game


@dataclass(frozen=True, slots=True)
class StreamStats:
    """A look at a stream."""

    length: int  # entries, delivered or not
    pending: int  # of these, delivered and not acknowledged
    dead: int
    oldest_pending_s: float  # since the oldest pending entry was published; 0 when there is none

    @property
    def lag(self) -> int:
        """Entries not delivered yet."""
        return max(self.length - self.pending, 0)


class GameStream(Protocol):
    """A queue of finished games between processes.

    Every method raises `Unavailable` when the store stays away for `retry_for_s` (`consume` only says that nothing came)
    and `PermissionRefused` when the store does not let this client in.
    """

    async def publish(self, uid: str, payload: bytes) -> None:
        """Add a game; it survives a crash of this process once this returns. Waits while the stream is full.

        What names the current span of `zerofleet.telemetry.tracing` travels beside it.
        Raises `InvalidRequest` when the payload is above `MAX_RECORD_BYTES` or the uid is no sensible name.
        Cancellation: the game may or may not be in the stream; publish it again.
        """
        ...

    async def consume(self, *, consumer: str, limit: int, block_s: float) -> list[Delivery]:
        """Return up to `limit` entries, oldest first; wait at most `block_s` for the first one, then return none.

        Entries that lie idle with any consumer come first, and at the first call under a name also those which an
        earlier process of that name left. One task at a time consumes under a name.
        Cancellation: nothing is lost; what was about to be returned is delivered again.
        """
        ...

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Remove entries that are safe elsewhere; unknown ids are passed over.

        Cancellation: some may stay and be delivered again.
        """
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Take an entry out of the stream and keep its beginning among the dead, in one step; nothing happens if it is gone.

        A store that refuses the dead letter loses it, and counts it: a bad game never holds up the good ones.
        Cancellation: it happened whole or not at all.
        """
        ...

    async def stats(self) -> StreamStats:
        """Return a look at the stream. Cancellation: nothing happened."""
        ...

    async def dead(self, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters, newest first. Cancellation: nothing happened."""
        ...

    async def aclose(self) -> None:
        """Let go of the store; what was delivered and not acknowledged stays for others."""
        ...


def require_publishable(uid: str, payload: bytes) -> None:
    """Raise `InvalidRequest` unless a game may be published so."""
    if not 1 <= len(uid) <= MAX_UID_CHARACTERS or not uid.isprintable():
        raise InvalidRequest(f"uid {uid[:40]!r} must have 1 to {MAX_UID_CHARACTERS} printable characters")
    if len(payload) > MAX_RECORD_BYTES:
        raise InvalidRequest(f"game {uid} has {len(payload)} bytes, at most {MAX_RECORD_BYTES} can be published")
