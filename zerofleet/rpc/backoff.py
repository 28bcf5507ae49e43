"""Exponential back-off with jitter.

Each pause is drawn from `least_share` to 1 times a limit that starts at `first_s` and doubles up to `longest_s`, so that
the clients of a fleet do not retry in step.
"""

from __future__ import annotations

import asyncio
import random

__all__ = ["Backoff"]

FACTOR = 2.0


class Backoff:
    """Growing pauses of one series of attempts.

    first_s      maximum of the first pause
    longest_s    maximum of all pauses
    rng          source of the jitter; None: each pause equals its limit
    least_share  shortest pause as a share of the current limit; 0 spreads clients most, 1/2 keeps each pause substantial
    """

    def __init__(self, first_s: float, longest_s: float, *, rng: random.Random | None, least_share: float = 0.5) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rng = rng
        self._least_share = least_share
        self.reset()

    def reset(self) -> None:
        """Start a new series, after a success."""
        self._limit_s = min(self._first_s, self._longest_s)

    def next_s(self) -> float:
        """Return the next pause and double the limit."""
        limit_s = self._limit_s
        self._limit_s = min(self._longest_s, FACTOR * limit_s)
        return limit_s if self._rng is None else self._rng.uniform(self._least_share * limit_s, limit_s)

    async def pause(self) -> None:
        """Sleep for the next pause. Cancellation: the pause counts."""
        await asyncio.sleep(self.next_s())

    async def pause_unless(self, event: asyncio.Event) -> None:
        """Sleep for the next pause, or until `event` is set. Cancellation: the pause counts."""
        try:
            async with asyncio.timeout(self.next_s()):
                await event.wait()
        except TimeoutError:
            pass
