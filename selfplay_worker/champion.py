"""Model version that a worker plays: followed from the gatekeeper, adopted after a random delay.

The delay keeps a fleet from requesting a new version from the inference server all at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import structlog

from zerofleet.contracts.promotions import Champion
from zerofleet.telemetry import metrics

__all__ = ["AdoptedModel"]

log = structlog.get_logger()


class AdoptedModel:
    """Version that new games begin with; 0 until there is a champion."""

    def __init__(self) -> None:
        self.version = 0
        self._available = asyncio.Event()

    def adopt(self, version: int) -> None:
        """Play with `version` from now on."""
        log.info("champion.adopted", version=version, before=self.version)
        self.version = version
        metrics.ADOPTED_VERSION.set(version)
        self._available.set()

    async def available(self) -> None:
        """Wait for the first champion. Cancellation: no effect."""
        await self._available.wait()

    async def follow(self, champions: AsyncIterator[Champion], *, delay_s: float, rng: random.Random) -> None:
        """Adopt each champion that appears: the first at once, later ones after at most `delay_s`.

        Ends with the iterator. Cancellation: the current version stays.
        """
        async for champion in champions:
            if self.version:
                await asyncio.sleep(rng.uniform(0.0, delay_s))
            self.adopt(champion.version)
