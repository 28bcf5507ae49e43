"""Pruning: bounds the size of the model store, and the number of verdicts in the ledger.

The trainer publishes, the gatekeeper deletes: it alone can tell which versions are still needed. These stay:

- every champion, past or present, for rollbacks and for the ladder;
- candidates that wait for a decision, versions the inference server should have, and pinned ones;
- the newest `keep` versions whatever their verdict, and of older ones every `keep_every`th as history.

A version is deleted atomically by a rename, so no reader finds half of one; the next publication removes the remains left
by a killed gatekeeper. A reader that had begun gets the error of a version that does not exist.
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
    """Return the stored `versions` (ascending) that may be deleted; none while `keep` is 0."""
    older = versions[: -settings.keep] if settings.keep else ()
    every = settings.keep_every
    return [version for version in older if version not in needed and not (every and version % every == 0)]


class Pruner:
    """Deletes the superfluous versions of one model."""

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
        """Prune every `EVERY_S` until cancelled; retry after errors of the store. Cancellation: as `prune`."""
        while True:
            try:
                await self.drop_verdicts()
                if self._settings.keep:
                    await self.prune()
            except (ZerofleetError, OSError) as error:
                log.warning("models.not_pruned", error=str(error), advice="it is retried")
            await asyncio.sleep(EVERY_S)

    async def prune(self) -> list[int]:
        """Delete the superfluous versions and return them. Raises `Unavailable`, `CorruptModel`, `OSError`.

        Cancellation: each version is either deleted or untouched.
        """
        gone: list[int] = []
        async with self._pointer.command():  # a promotion writes pointer and history one after the other
            found = await self._disk.read(partial(self._superfluous, self._needed()))
        for version in found:
            async with self._pointer.command():  # excludes a promotion of it meanwhile
                if version not in self._needed() and await self._disk.run(partial(self._delete, version)):
                    gone.append(version)
        if gone:
            log.info("models.pruned", model=self._ledger.model, versions=gone, kept=self._settings.keep)
        return gone

    async def drop_verdicts(self) -> list[int]:
        """Drop the oldest verdicts that the ledger need not keep; return their versions. Raises and cancels as `prune`."""
        async with self._pointer.command():  # excludes a promotion of one of them meanwhile
            dropped = await self._ledger.drop_old(await self._disk.read(self._champions))
        if dropped:
            log.info("verdicts.dropped", model=self._ledger.model, count=len(dropped), through=dropped[-1])
        return dropped

    def _superfluous(self, needed: set[int]) -> list[int]:
        return superfluous(self._store.versions(self._ledger.model), needed | self._champions(), self._settings)

    def _champions(self) -> set[int]:
        """Return the versions that were champion; raises `CorruptModel` while a line is unreadable that may name one."""
        return {champion.version for champion in self._store.history(self._ledger.model, whole=True)}  # not from memory

    def _needed(self) -> set[int]:
        champions = {champion.version for champion in self._pointer.history}
        return champions | {*self._ledger.unsettled(), *self._serving.wanted(), *self._settings.pinned}

    def _delete(self, version: int) -> bool:
        """Delete a version; return whether it existed."""
        crash_point("gatekeeper_before_prune")
        try:
            self._store.delete(self._ledger.model, version)
        except ModelNotFound:  # deleted by hand meanwhile
            return False
        metrics.MODELS_PRUNED.inc()
        return True
