"""A model that loads at once and evaluates uniformly, and an inference server for the gatekeeper in this process."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from games.core import make
from games.positions import parameters_text
from zerofleet.contracts.encodings import encoder_fingerprint, sample_positions
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.evaluators.base import Evaluation, LeafBatch
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.storage.model_store import DirectoryStore

__all__ = ["MODEL", "FuzzInference", "FuzzLoader", "archive", "publish"]

MODEL = "tic_tac_toe"


def archive() -> bytes:
    """Return a small archive with the entries of TorchScript."""
    out, empty_tuple = io.BytesIO(), b"\x80\x02)."  # pickled
    with zipfile.ZipFile(out, "w") as file:
        for name, content in {"constants.pkl": empty_tuple, "data.pkl": empty_tuple, "code/__torch__.py": b"code"}.items():
            file.writestr(f"model/{name}", content)
    return out.getvalue()


def publish(store: DirectoryStore) -> tuple[int, str]:
    """Store another version; return its number and the hash of its manifest."""
    game = make(MODEL)
    spec = game.spec()
    states, legal = sample_positions(game, games=1, seed=3)
    manifest = Manifest(
        model=MODEL,
        game=spec.name,
        parameters=parameters_text(game),
        rules_version=spec.rules_version,
        encoder=encoder_fingerprint(game),
        planes=spec.planes,
        num_actions=spec.num_actions,
        max_legal=spec.max_legal,
        num_players=spec.num_players,
        parent_version=0,
        train_steps=10,
        games_seen=3,
        created_at_ms=1_700_000_000_000,
        network={"blocks": 1},
        heads=("policy", "value"),
        golden=Golden.of(states, legal, uniform_policy(legal), np.zeros((len(states), 2))),
    )
    weights = save({"stem.weight": np.full((2, 3), len(store.versions(MODEL)), np.float32)})
    version = store.publish(
        MODEL, {"model.pt": archive(), "weights.safetensors": weights, "model.py": b"import torch\n"}, manifest
    )
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

    def load(self, path: Path, manifest: Manifest, *, max_batch: int, pause_s: float = 0.0) -> FuzzNetwork:
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
