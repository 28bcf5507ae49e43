"""Promoter: verifies a version, has it loaded and self-tested, and writes the pointer."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import structlog

from games.core import Game
from gatekeeper.disk import Disk
from gatekeeper.pointer import ChampionPointer
from gatekeeper.served_versions import Serving
from zerofleet.contracts.lineage import NOT_SELF_TESTED, was_self_tested
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import CorruptModel, Unavailable, ZerofleetError
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import tracing

__all__ = ["Promoter", "untrained"]

log = structlog.get_logger()


class Promoter:
    """Promotions of one model. A version becomes champion only after an inference server has loaded it; see `crown`."""

    def __init__(
        self, game: Game, store: ModelStore, model: str, *, pointer: ChampionPointer, serving: Serving, disk: Disk
    ) -> None:
        self._game = game
        self._store = store
        self._model = model
        self._pointer = pointer
        self._serving = serving
        self._disk = disk

    async def check(self, version: int) -> Manifest:
        """Verify a version's files and return its manifest. Raises `CorruptModel`, `ModelNotFound`. Cancellation: no effect."""
        with tracing.child("gate.check", version=version):
            return await self._disk.read(partial(self._store.verify, self._model, version, game=self._game))

    async def is_untrained(self, version: int) -> bool:
        """Return whether a version is known to have the random weights of a new run. Cancellation: no effect."""
        try:
            return untrained(await self._disk.read(partial(self._store.manifest, self._model, version)))
        except ZerofleetError as error:  # without its manifest it counts as trained: a match decides
            log.warning("manifest.unreadable", version=version, error=str(error))
            return False

    async def manifest_sha256(self, version: int) -> str:
        """Return the hash of a version's manifest. Raises as `check`. Cancellation: no effect."""
        return await self._disk.read(partial(self._store.manifest_sha256, self._model, version))

    async def crown(self, version: int, *, reason: str, without_self_test: bool = False) -> Champion:
        """Verify a version, load it on the inference server, which self-tests it, and write the pointer.

        Only inside `ChampionPointer.command`. A former champion is accepted although it cannot be loaded now, and with
        `without_self_test` any version; the stored reason notes the latter.
        Raises `ModelNotFound`, `CorruptModel`, `StaleEpoch`, `Unavailable`. Cancellation: as `ChampionPointer.write`.
        """
        await self.check(version)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._serving.including(version))
            except (ZerofleetError, OSError) as error:
                # The content of a former champion is sound: it is the present one that cannot be loaded.
                if not was_self_tested(self._pointer.history, version, await self.manifest_sha256(version)):
                    if isinstance(error, CorruptModel):
                        raise
                    if not without_self_test:
                        raise Unavailable(
                            f"version {version} was not self-tested: the inference server is unreachable or cannot load it"
                            f" ({error}); start it, or promote version {version} with --without-self-test"
                        ) from error
                    reason = f"{reason} {NOT_SELF_TESTED}"
                log.warning("promotion.not_loaded", version=version, error=str(error))
            return await self._pointer.write(version, reason=reason)


def untrained(manifest: Manifest) -> bool:
    """Return whether a version has the random weights of a new run: no step, and no parent that could have taken any."""
    return manifest.train_steps == 0 and manifest.parent_version == 0
