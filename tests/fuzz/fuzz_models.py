"""A model that loads at once and evaluates uniformly, and an inference server for the gatekeeper in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from games.core import make
from zerofleet.contracts.manifests import Manifest
from zerofleet.evaluators.base import Evaluation, LeafBatch
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import MODEL, manifest_of, sample_files, uniform_golden

__all__ = ["MODEL", "FuzzInference", "FuzzLoader", "publish"]


def publish(store: DirectoryStore) -> tuple[int, str]:
    """Store another version; return its number and the hash of its manifest."""
    game = make(MODEL)
    manifest = manifest_of(game, uniform_golden(game), network={"blocks": 1})
    version = store.publish(MODEL, sample_files(len(store.versions(MODEL))), manifest)
    return version, store.manifest_sha256(MODEL, version)


class FuzzNetwork:
    """Uniform policies, and values of zero."""

    extra_heads: tuple[str, ...] = ()
    backend = "fake"
    precision = "float32"

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Evaluate a batch of requests."""
        rows = np.concatenate(legal)
        return uniform_policy(rows), np.zeros((len(rows), 2), np.float32)


class FuzzLoader:
    """Loads `FuzzNetwork`."""

    slots = 1

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> FuzzNetwork:
        """Load a version."""
        return FuzzNetwork()


class FuzzInference:
    """Evaluator and control of a gatekeeper: serves every version."""

    async def serve(self, model: str, versions: Sequence[int]) -> None:
        """Serve versions. Cancellation: no effect."""

    async def ready(self, model: str, version: int) -> bool:
        """Return true. Cancellation: no effect."""
        return True

    async def evaluations(self, model: str) -> dict[tuple[str, int], int]:
        """Return no counts. Cancellation: no effect."""
        return {}

    async def evaluate(self, batch: LeafBatch, *, version: int) -> Evaluation:
        """Evaluate uniformly. Cancellation: no effect."""
        return Evaluation(uniform_policy(batch.legal), np.zeros((len(batch), 2), dtype=np.float32), version)
