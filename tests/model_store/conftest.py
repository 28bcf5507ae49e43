"""A small stored model made without torch: the archive has TorchScript's shape, the weights are real safetensors."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import save

import games
from games.core import Game, make
from zerofleet.encodings import encoder_fingerprint, sample_positions
from zerofleet.manifests import Golden, Manifest
from zerofleet.model_store import ModelStore

assert games


def archive(payload: bytes = b"code") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("model/constants.pkl", b"")
        file.writestr("model/code/__torch__.py", payload)
    return out.getvalue()


@pytest.fixture(scope="session")
def game() -> Game:
    return make("tic_tac_toe")


@pytest.fixture
def store(tmp_path) -> ModelStore:
    return ModelStore(tmp_path / "models")


@pytest.fixture(scope="session")
def manifest(game) -> Manifest:
    spec = game.spec()
    states, legal = sample_positions(game, games=1, seed=3)
    policy = (legal >= 0) / (legal >= 0).sum(axis=1, keepdims=True)
    return Manifest(
        model="tic_tac_toe",
        game=spec.name,
        parameters={"size": "3"},
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
        golden=Golden.of(states, legal, policy, np.zeros((len(states), 2))),
    )


@pytest.fixture
def files() -> Callable[..., dict[str, bytes]]:
    def make_files(fill: float = 0.5) -> dict[str, bytes]:
        weights = save({"stem.weight": np.full((2, 3), fill, np.float32)})
        return {"model.pt": archive(), "weights.safetensors": weights, "model.py": b"import torch\n"}

    return make_files
