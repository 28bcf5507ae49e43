"""Champion pointer in this process: changed by one command at a time, observed by every watcher.

The pointer is a file of the model store, written atomically, and only if it still is the one this process read last.
Commands are serialised by a lock, so the champion is always that of the last command, and each change carries an epoch of
the lease: a gatekeeper that has been replaced gets `StaleEpoch` and must stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog

from gatekeeper.disk import Disk
from gatekeeper.lease import Lease
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import CorruptModel, StaleEpoch, Unavailable
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.model_store.pointer_check import POINTER_REMEDY

__all__ = ["ChampionPointer"]

log = structlog.get_logger()


class ChampionPointer:
    """Champion of one model, and its history."""

    def __init__(self, store: ModelStore, model: str, lease: Lease, disk: Disk) -> None:
        """Read pointer and history; blocks. Raises `CorruptModel` where the pointer is not their latest, `Unavailable`."""
        self._store = store
        self._model = model
        self._lease = lease
        self._disk = disk
        self._commands = asyncio.Lock()
        self._changed = asyncio.Event()
        self._lost_lease = asyncio.Event()
        self._closed = False
        self._history = store.history(model)  # before the pointer, whose line is written after it
        present = store.settled_champion(model)  # a killed gatekeeper may have put it in its place and synced nothing
        _require_latest(present, self.champion, where=f"{store.location}/{model}")

    @property
    def champion(self) -> Champion | None:
        """Champion, None before the first promotion."""
        return self._history[-1] if self._history else None

    @property
    def epoch(self) -> int:
        """Epoch of the champion, 0 before the first promotion."""
        return self._history[-1].epoch if self._history else 0

    @property
    def history(self) -> Sequence[Champion]:
        """Every champion so far, oldest first."""
        return self._history

    @asynccontextmanager
    async def command(self) -> AsyncIterator[None]:
        """Hold the right to change the pointer; commands are served in order of arrival.

        Cancellation: while waiting, no effect.
        """
        async with self._commands:
            yield

    async def write(self, version: int, *, reason: str) -> Champion:
        """Point to a version; only inside `command`.

        Raises the errors of `ModelStore.write_champion`: `ModelNotFound`, `CorruptModel`, `StaleEpoch`, `Unavailable`; the last
        one also while the pointer or its history is damaged, which is no fault of the version.
        Cancellation: raised after the pointer is written and watchers are notified, or no effect.
        """
        try:
            return await self._disk.commit(partial(self._write, version, reason), self._announce)
        except StaleEpoch:
            self._lost_lease.set()
            raise

    async def until_lost(self) -> None:
        """Wait until another gatekeeper has taken over, then raise `StaleEpoch`; never return.

        Cancellation: no effect.
        """
        await self._lost_lease.wait()
        raise StaleEpoch(f"another gatekeeper promotes {self._model} now; this one stops")

    async def watch(self) -> AsyncGenerator[Champion]:
        """Yield the champion, if any, and then each change; a slow reader gets the latest only.

        Ends with `close`. Cancellation: no effect.
        """
        seen = 0
        while True:
            changed, champion = self._changed, self.champion
            if champion is not None and champion.epoch > seen:
                seen = champion.epoch
                yield champion
            elif self._closed:
                return
            else:
                await changed.wait()

    async def changed_since(self, epoch: int) -> None:
        """Wait until the champion's epoch differs from `epoch`. Cancellation: no effect."""
        while self.epoch == epoch:
            await self._changed.wait()

    def close(self) -> None:
        """End the iteration of all watchers."""
        self._closed = True
        self._wake()

    def _write(self, version: int, reason: str) -> Champion:
        epoch = self._lease.next_epoch(above=self.epoch)
        crash_point("gatekeeper_after_epoch_before_champion")
        try:
            champion = self._put(version, epoch, reason)
        except CorruptModel as error:
            self._store.verify(self._model, version)  # raises if the version is at fault
            raise Unavailable(f"version {version} of {self._model} is sound, but cannot become champion: {error}") from error
        crash_point("gatekeeper_after_champion")
        return champion

    def _put(self, version: int, epoch: int, reason: str) -> Champion:
        """Write the pointer, and return it also where the store failed after it was in its place."""
        try:
            return self._store.write_champion(self._model, version, epoch=epoch, reason=reason, after=self.epoch)
        except Unavailable:
            # The pointer may be written and only its history line missing, which the store adds with the next write; or the
            # pointer is in its place and would not survive a power loss.
            written = self._store.settled_champion(self._model)
            if written is None or written.epoch != epoch:
                raise
            return written

    def _announce(self, champion: Champion) -> None:
        self._history.append(champion)
        log.info("champion.changed", version=champion.version, epoch=champion.epoch, reason=champion.reason)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _require_latest(present: Champion | None, latest: Champion | None, *, where: str) -> None:
    """Raise `CorruptModel` unless the pointer, `present`, is the latest champion of the history or newer.

    Otherwise each promotion would find another champion than the one expected, as after a change by another gatekeeper.
    """
    if latest is None or present == latest or (present is not None and present.epoch > latest.epoch):
        return
    got = "is missing" if present is None else f"names version {present.version} of epoch {present.epoch}"
    raise CorruptModel(
        f"{where}/champion.json {got}, and the last line of champion_history.jsonl version {latest.version} of epoch "
        f"{latest.epoch}: the pointer was lost or replaced by an older one; {POINTER_REMEDY}"
    )
