"""Search for a version with given weights, so that a repeated publication allocates no number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
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
        self, store: ModelStore, model: str, sha256: str, versions: Iterable[int], state_of: Callable[[int], Hashable]
    ) -> int | None:
        """Return the first intact version whose weights file has this hash, None if there is none.

        `state_of(version)` identifies a manifest and its content; it and `store` may raise `CorruptModel` and `ModelNotFound`
        for a version, which is then passed over.
        """
        for version in versions:
            with suppress(CorruptModel, ModelNotFound):
                if self._hash(store, model, version, state_of(version)) == sha256:
                    return store.verify(model, version).version
        return None

    def _hash(self, store: ModelStore, model: str, version: int, state: Hashable) -> str:
        if state not in self._hashes:
            stored = store.manifest(model, version).files.get(WEIGHTS_FILE)
            self._hashes[state] = "" if stored is None else stored.sha256
        return self._hashes[state]
