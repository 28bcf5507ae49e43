"""Run with many stored versions, a chain in which each was trained from the one before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import MODEL, sample_files, sample_manifest

__all__ = ["publish_chain"]


def publish_chain(models: Path, last: int, *, champions: Collection[int]) -> None:
    """Store the versions after those in `models` up to `last`, and promote those of `champions`."""
    store = DirectoryStore(models)
    first = 1 + max(store.versions(MODEL), default=0)
    for version in range(first, last + 1):
        manifest = replace(sample_manifest(), parent_version=version - 1, train_steps=10 * version)
        store.publish(MODEL, sample_files(float(version)), manifest)
        if version in champions:
            store.write_champion(MODEL, version, epoch=version, reason=f"promotion {version}")
