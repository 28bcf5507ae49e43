"""Model version that a worker plays: followed from the gatekeeper, adopted after a random delay.

The delay keeps a fleet from requesting a new version from the inference server all at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable

import structlog

from zerofleet.contracts.promotions import Champion
from zerofleet.telemetry import metrics

__all__ = ["AdoptedModel"]

log = structlog.get_logger()


class AdoptedModel:
    """Version that new games begin with; 0 until there is a champion."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        """Start without a version; `clock` returns seconds since 1970 UTC."""
        self.version = 0
        self._clock = clock
        self._made_at_s: float | None = None
        self._changed = asyncio.Event()

    @property
    def age_s(self) -> float:
        """Seconds since the export of the followed champion, or since its promotion if the export is unknown; 0 without one.

        Clocks of several machines may disagree; an age is never negative.
        """
        return 0.0 if self._made_at_s is None else max(0.0, self._clock() - self._made_at_s)

    def adopt(self, version: int) -> None:
        """Play with `version` from now on."""
        log.info("champion.adopted", version=version, before=self.version)
        self.version = version
        metrics.ADOPTED_VERSION.set(version)
        self._changed.set()

    async def available(self) -> None:
        """Wait for the first champion. Cancellation: no effect."""
        await self.newer_than(0)

    async def newer_than(self, version: int) -> None:
        """Wait for a champion of a higher version. Cancellation: no effect."""
        while self.version <= version:
            self._changed.clear()
            await self._changed.wait()

    async def follow(self, champions: AsyncIterator[Champion], *, delay_s: float, rng: random.Random) -> None:
        """Adopt the newest champion: the first at once, a later one at most `delay_s` after it appears.

        A champion that is replaced within the delay is never adopted. The time from export to adoption is measured for versions
        promoted since the call, without roll-backs. Ends with the iterator. Cancellation: the current version stays.
        """
        loop, began_s = asyncio.get_running_loop(), self._clock()
        newest: Champion
        timer: asyncio.TimerHandle | None = None

        def adopt_newest() -> None:
            nonlocal timer
            timer = None
            is_new = newest.version > self.version and newest.promoted_at_ms / 1000 >= began_s
            self.adopt(newest.version)
            self._made_at_s = (newest.exported_at_ms or newest.promoted_at_ms) / 1000
            if is_new and newest.exported_at_ms:
                metrics.ADOPTION.observe(self.age_s)

        try:
            async for champion in champions:  # read also during the delay: they would pile up
                newest = champion
                if timer is None and self.version and delay_s:
                    timer = loop.call_later(rng.uniform(0.0, delay_s), adopt_newest)
                elif timer is None:
                    adopt_newest()
            if timer is not None:
                adopt_newest()
        finally:
            if timer is not None:
                timer.cancel()
