"""Versions on the inference servers: champion, predecessor and pinned ones while they are stored, others while they are needed.

The predecessor stays so that games begun on it can finish. A restarted or newly added server is brought up to date.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from gatekeeper.pointer import ChampionPointer
from zerofleet.contracts.promotions import recent_versions
from zerofleet.errors import ModelNotFound, ZerofleetError
from zerofleet.telemetry import tracing

__all__ = ["Control", "Serving"]

log = structlog.get_logger()


class Control(Protocol):
    """Loader of models: `zerofleet.evaluators.replicas.ReplicaControl`, or a fake."""

    async def serve(self, model: str, versions: Sequence[int]) -> None:
        """Serve exactly these versions; raises `CorruptModel`, without an effect, when one cannot be loaded."""
        ...

    async def ready(self, model: str, version: int) -> bool:
        """Return whether every replica is ready to evaluate a version."""
        ...

    async def evaluations(self, model: str) -> Mapping[tuple[str, int], int]:
        """Return the number of evaluated positions by server and version."""
        ...


class Serving:
    """Reconciles the inference server's versions of one model with the wanted ones."""

    def __init__(
        self,
        control: Control,
        model: str,
        pointer: ChampionPointer,
        *,
        recheck_s: float,
        pinned: Collection[int] = (),
        stored: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """`pinned`: versions that are served once they are stored, as long as there is a champion.

        `stored`: returns the stored versions; it blocks, is called in a thread, and may raise `Unavailable` or `OSError`.
        """
        self._control = control
        self._pinned = frozenset(pinned)
        self._stored = stored
        self._found: frozenset[int] = frozenset()  # pinned versions that are stored; they stay, nothing prunes them
        self._removed: frozenset[int] = frozenset()  # former champions that are no longer stored
        self._model = model
        self._pointer = pointer
        self._recheck_s = recheck_s
        self._needed: Counter[int] = Counter()
        self._changes = asyncio.Lock()
        self._served: tuple[int, ...] = ()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def including(self, *versions: int) -> AsyncIterator[None]:
        """Serve these versions beside the champions while the block runs.

        Raises `CorruptModel` when one cannot be loaded, `ModelNotFound`, `PermissionRefused`, `Unavailable`.
        Cancellation: they are no longer wanted, and are taken out of service later.
        """
        self._needed.update(versions)
        try:
            with tracing.child("gate.load", kind=tracing.SpanKind.CLIENT, versions=[str(version) for version in versions]):
                await self.apply()
            yield
        finally:
            self._needed.subtract(versions)
            self._changed.set()

    async def apply(self) -> None:
        """Load the wanted versions on the server. Raises as `including`. Cancellation: loaded or not, and `run` loads again."""
        async with self._changes:
            await self._look_for_pinned()
            wanted = self.wanted()
            self._served = ()  # until the answer: a cancelled or failed call may have changed the server all the same
            if wanted:
                wanted = await self._serve(wanted)
            self._served = wanted

    async def _serve(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Load versions and return them, without a predecessor that was removed from the store: no new game needs it."""
        try:
            await self._control.serve(self._model, wanted)
            return wanted
        except ModelNotFound as error:
            predecessors = {*recent_versions(self._pointer.history)[1:]}
            self._removed = frozenset(predecessors - {*await asyncio.to_thread(self._stored)})
            if (left := self.wanted()) == wanted:
                raise
            log.warning("serving.predecessor_removed", versions=sorted(self._removed), error=str(error))
        await self._control.serve(self._model, left)
        return left

    def wanted(self) -> tuple[int, ...]:
        """Return the versions that should be served, ascending."""
        champions = [version for version in recent_versions(self._pointer.history) if version not in self._removed]
        pinned = self._found if champions else ()
        return tuple(sorted({*champions, *pinned, *(version for version, count in self._needed.items() if count > 0)}))

    async def _look_for_pinned(self) -> None:
        """Note the pinned versions that were stored meanwhile; a store that is away leaves it at those known."""
        if self._pinned <= self._found:
            return
        try:
            stored = await asyncio.to_thread(self._stored)
        except (ZerofleetError, OSError) as error:
            log.warning("serving.pinned_unknown", versions=sorted(self._pinned - self._found), error=str(error))
            return
        self._found |= self._pinned & set(stored)

    def champion_changed(self) -> None:
        """Wake `run` after a change of the champion."""
        self._changed.set()

    async def run(self) -> None:
        """Apply changes of the wanted versions until cancelled, and recheck every server periodically, new ones included.

        Cancellation: the server keeps its versions.
        """
        while True:
            try:
                await self._look_for_pinned()
                if self.wanted() != self._served or not await self._has(*self.wanted()):
                    await self.apply()
            except Exception as error:
                log.warning(
                    "serving.failed", versions=self.wanted(), error=str(error), exc_info=not isinstance(error, ZerofleetError)
                )
                self._served = ()
            try:
                async with asyncio.timeout(self._recheck_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()

    async def has_champion(self) -> bool:
        """Return whether the server has the champion; true while there is none. Raises `Unavailable`."""
        champion = self._pointer.champion
        return champion is None or await self._has(champion.version)

    async def _has(self, *versions: int) -> bool:
        return all([await self._control.ready(self._model, version) for version in versions])
