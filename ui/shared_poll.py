"""Polls that any number of browsers share: one look at a time of each source, and none while no browser looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from zerofleet.rpc.calls import to_its_end

__all__ = ["SharedPolls", "Source"]

Found = TypeVar("Found")
Seen_co = TypeVar("Seen_co", covariant=True)


class Source(Protocol[Seen_co]):
    """Source of a poll."""

    async def look(self) -> Seen_co:
        """Return the present state. Cancellation: no effect."""
        ...

    async def aclose(self) -> None:
        """Release what the looks hold."""
        ...


class SharedPolls(Generic[Found]):
    """Polls by key. A browser that comes within the interval after a look begins with what that look found."""

    def __init__(self, every_s: float) -> None:
        """Create it; `every_s` is the time between two looks of one key."""
        self._every_s = every_s
        self._polls: dict[Hashable, _Poll[Found]] = {}
        self._last: dict[Hashable, tuple[float, Found]] = {}

    @property
    def count(self) -> int:
        """Number of keys that are followed."""
        return len(self._polls)

    def is_followed(self, key: Hashable) -> bool:
        """Return whether a browser follows a key."""
        return key in self._polls

    async def follow(self, key: Hashable, source: Callable[[], Source[Found]]) -> AsyncGenerator[Found]:
        """Yield the state again and again; the first browser makes the source.

        Raises the errors of the source. Cancellation: the last browser that leaves ends the poll.
        """
        oldest_s = time.monotonic() - self._every_s
        self._last = {one: kept for one, kept in self._last.items() if kept[0] > oldest_s}
        looked_at_s, last = self._last.get(key, (0.0, None))
        poll = self._polls.get(key)
        if poll is None:
            poll = self._polls[key] = _Poll(source(), self._every_s, looked_at_s)
        poll.followers += 1
        try:
            if last is not None:
                yield last
            while True:
                found = await poll.next()
                self._last[key] = (poll.looked_at_s, found)
                yield found
        finally:
            poll.followers -= 1
            if not poll.followers:
                self._polls.pop(key, None)
                await to_its_end(asyncio.create_task(poll.aclose()))  # a browser that leaves cancels every wait here


class _Poll(Generic[Found]):
    """Poll of one source, shared by its followers."""

    def __init__(self, source: Source[Found], every_s: float, looked_at_s: float) -> None:
        self.followers = 0
        self.looked_at_s = looked_at_s
        self._source = source
        self._every_s = every_s
        self._look: asyncio.Task[Found] | None = None

    async def next(self) -> Found:
        """Return the next state; all followers receive the same one. Cancellation: the others still receive it."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._looked())
        return await asyncio.shield(self._look)

    async def aclose(self) -> None:
        """End the poll."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)
        await self._source.aclose()

    async def _looked(self) -> Found:
        await asyncio.sleep(self.looked_at_s + self._every_s - time.monotonic())
        self.looked_at_s = time.monotonic()
        return await self._source.look()
