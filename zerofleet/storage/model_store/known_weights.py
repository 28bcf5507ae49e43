"""Search for a version with given weights, so that a repeated publication allocates no number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from contextlib import suppress

from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.errors import CorruptModel, ModelNotFound
from zerofleet.storage.model_store.base import ModelStore

__all__ = ["KnownWeights"]


class KnownWeights:
    """Hashes of the weights of stored versions, by the state of the manifests that name them: each manifest is read once."""

    def __init__(self) -> None:
        self._hashes: dict[Hashable, str] = {}

    def find(
        self,
        store: ModelStore,
        model: str,
        sha256: str,
        versions: Collection[int],
        state_of: Callable[[int], Hashable],
        *,
        parent: int,
    ) -> int | None:
        """Return the newest intact version whose weights file has this hash, None if there is none.

        `parent`: version that the published one continues. A repeated publication has the parent of the first one, whose
        number is higher, or the weights of the parent itself. Earlier versions are searched when the parent is not stored,
        since its number may be that of another store. `state_of(version)` identifies a manifest and its content; it and
        `store` may raise `CorruptModel` and `ModelNotFound` for a version, which is then passed over.
        """
        oldest = parent if parent in versions else 0
        for version in sorted((one for one in versions if one >= oldest), reverse=True):
            with suppress(CorruptModel, ModelNotFound):
                if self._hash(store, model, version, state_of(version)) == sha256:
                    return store.verify(model, version).version
        return None

    def _hash(self, store: ModelStore, model: str, version: int, state: Hashable) -> str:
        if state not in self._hashes:
            stored = store.manifest(model, version).files.get(WEIGHTS_FILE)
            self._hashes[state] = "" if stored is None else stored.sha256
        return self._hashes[state]
