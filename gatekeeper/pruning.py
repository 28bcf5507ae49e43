"""Pruning: the model store does not grow for ever.

The trainer publishes, the gatekeeper deletes: it alone knows which versions are still needed. What stays:

- every champion there ever was, so that one can go back to it and the ladder can play it;
- candidates that wait for a decision, and what the inference server is to have;
- the newest `keep` versions whatever became of them, and of older ones every `keep_every`th as history.

A version goes in one step, by a rename, so that nobody finds half of one; what a killed gatekeeper leaves of it is swept
away by the next publication. Whoever had begun to read it gets the error of a version that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

import structlog

from gatekeeper.disk import Disk
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.served_versions import Serving
from zerofleet.errors import ModelNotFound, ZerofleetError
from zerofleet.presets import ModelSettings
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import metrics

__all__ = ["Pruner", "superfluous"]

EVERY_S = 60.0

log = structlog.get_logger()


def superfluous(versions: Sequence[int], needed: Collection[int], settings: ModelSettings) -> list[int]:
    """Return which of the stored `versions` (ascending) may go; none while `keep` is 0."""
    older = versions[: -settings.keep] if settings.keep else ()
    every = settings.keep_every
    return [version for version in older if version not in needed and not (every and version % every == 0)]


class Pruner:
    """Deletes what nobody needs any more of one model."""

    def __init__(
        self,
        store: ModelStore,
        settings: ModelSettings,
        *,
        ledger: Ledger,
        pointer: ChampionPointer,
        serving: Serving,
        disk: Disk,
    ) -> None:
        self._store = store
        self._settings = settings
        self._ledger = ledger
        self._pointer = pointer
        self._serving = serving
        self._disk = disk

    async def run(self) -> None:
        """Prune now and then, for ever; a store that refuses is tried again. Cancellation: as `prune`."""
        while self._settings.keep:
            try:
                await self.prune()
            except (ZerofleetError, OSError) as error:
                log.warning("models.not_pruned", error=str(error), advice="it is tried again")
            await asyncio.sleep(EVERY_S)

    async def prune(self) -> list[int]:
        """Delete what may go and return it. Raises `Unavailable`, `CorruptModel`, `OSError`.

        Cancellation: a version is gone, or untouched.
        """
        gone: list[int] = []
        for version in await self._disk.run(partial(self._superfluous, self._needed())):
            async with self._pointer.command():  # nobody promotes it meanwhile
                if version not in self._needed() and await self._disk.run(partial(self._delete, version)):
                    gone.append(version)
        if gone:
            log.info("models.pruned", model=self._ledger.model, versions=gone, kept=self._settings.keep)
        return gone

    def _superfluous(self, needed: set[int]) -> list[int]:
        model = self._ledger.model
        champions = {champion.version for champion in self._store.history(model)}  # the store's own words, not memory's
        return superfluous(self._store.versions(model), needed | champions, self._settings)

    def _needed(self) -> set[int]:
        champions = {champion.version for champion in self._pointer.history}
        return champions | set(self._ledger.unsettled()) | set(self._serving.wanted())

    def _delete(self, version: int) -> bool:
        """Delete a version; returns whether it was there."""
        crash_point("gatekeeper_before_prune")
        try:
            self._store.delete(self._ledger.model, version)
        except ModelNotFound:  # by hand, meanwhile
            return False
        metrics.MODELS_PRUNED.inc()
        return True
