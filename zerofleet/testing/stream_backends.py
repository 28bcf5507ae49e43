"""A stream under test, as its contract sees it, and calls of its tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zerofleet.storage.streams import Delivery, GameStream

__all__ = ["MakeStreamBackend", "StreamBackend", "ids", "publish", "take", "uids"]


class StreamBackend(Protocol):
    """One stream, as several processes see it."""

    def open(self) -> GameStream:
        """Return another handle to the stream, as another process has it."""
        ...

    async def age(self, seconds: float) -> None:
        """Make every pending entry appear to have been delivered that much longer ago."""
        ...


MakeStreamBackend = Callable[..., StreamBackend]
"""Makes a fresh, empty stream; keywords are those of `StreamSettings`."""


async def publish(stream: GameStream, *numbers: int) -> None:
    for number in numbers:
        await stream.publish(f"game-{number}", f"payload {number}".encode())


async def take(stream: GameStream, consumer: str = "a", limit: int = 100) -> list[Delivery]:
    return await stream.consume(consumer=consumer, limit=limit, block_s=0.0)


def uids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.uid for delivery in deliveries]


def ids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.entry_id for delivery in deliveries]
