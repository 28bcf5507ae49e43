"""A small stored model made without torch: the archive has TorchScript's shape, the weights are real safetensors."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
from safetensors.numpy import save

import games
from games.core import Game
from games.positions import parameters_text
from zerofleet.contracts.encodings import encoder_fingerprint, sample_positions
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.contracts.naming import model_name

__all__ = ["MODEL", "manifest_of", "sample_archive", "sample_files", "sample_manifest", "uniform_golden"]

MODEL = "tic_tac_toe"
EMPTY_TUPLE = b"\x80\x02)."  # pickled


def sample_archive(payload: bytes = b"code", **changes: bytes) -> bytes:
    """Return a zip with the entries of TorchScript; `changes` replace or add some of them."""
    out = io.BytesIO()
    entries = {"constants.pkl": EMPTY_TUPLE, "data.pkl": EMPTY_TUPLE, "code/__torch__.py": payload}
    with zipfile.ZipFile(out, "w") as file:
        for name, content in {**entries, **changes}.items():
            file.writestr(f"model/{name}", content)
    return out.getvalue()


def sample_files(fill: float = 0.5) -> dict[str, bytes]:
    """Return the files of a version whose every weight is `fill`."""
    weights = save({"stem.weight": np.full((2, 3), fill, np.float32)})
    return {"model.pt": sample_archive(), "weights.safetensors": weights, "model.py": b"import torch\n"}


def manifest_of(game: Game, golden: Golden, **changes: Any) -> Manifest:
    """Return the manifest of a model of a game that has played a few games; `changes` replace some of its fields."""
    spec = game.spec()
    manifest = Manifest(
        model=model_name(game),
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
        network={"blocks": 1, "channels": 4},
        heads=("policy", "value"),
        golden=golden,
    )
    return replace(manifest, **changes)


def uniform_golden(game: Game) -> Golden:
    """Return golden positions of a game with a uniform policy and values of 0."""
    states, legal = sample_positions(game, games=1, seed=3)
    policy = (legal >= 0) / (legal >= 0).sum(axis=1, keepdims=True)
    return Golden.of(states, legal, policy, np.zeros((len(states), game.spec().num_players)))


def sample_manifest() -> Manifest:
    """Return the manifest of a model of tic-tac-toe that has played a few games."""
    game = games.make(MODEL)
    return manifest_of(game, uniform_golden(game), parameters={"size": "3"})
