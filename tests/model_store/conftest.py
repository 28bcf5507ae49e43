"""A small stored model made without torch: the archive has TorchScript's shape, the weights are real safetensors."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from safetensors.numpy import save

import games
from games.core import Game, make
from zerofleet.contracts.encodings import encoder_fingerprint, sample_positions
from zerofleet.contracts.manifests import Golden, Manifest
from zerofleet.storage.model_store import DirectoryStore, ModelStore
from zerofleet.storage.model_store.bucket import Bucket
from zerofleet.storage.model_store.cache import ModelCache
from zerofleet.storage.model_store.objects import ObjectStore

assert games

MODEL = "tic_tac_toe"
EMPTY_TUPLE = b"\x80\x02)."  # pickled


class Place(Protocol):
    """Where a store keeps its models, for a test that tampers with it. Names are below the model."""

    store: ModelStore
    location: str

    def limited(self, max_file_bytes: int) -> ModelStore: ...
    def names(self) -> set[str]: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, content: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class DirectoryPlace:
    def __init__(self, root: Path) -> None:
        self.store = DirectoryStore(root)
        self.location = str(root)
        self._home = root / MODEL

    def limited(self, max_file_bytes: int) -> ModelStore:
        return DirectoryStore(self.store.root, max_file_bytes=max_file_bytes)

    def names(self) -> set[str]:
        return {str(path.relative_to(self._home)) for path in self._home.rglob("*") if path.is_file()}

    def read(self, name: str) -> bytes | None:
        return (self._home / name).read_bytes() if (self._home / name).exists() else None

    def write(self, name: str, content: bytes) -> None:
        (self._home / name).parent.mkdir(parents=True, exist_ok=True)
        (self._home / name).write_bytes(content)

    def remove(self, name: str) -> None:
        (self._home / name).unlink()


class ObjectPlace:
    """A bucket, with one copy of it in a local cache."""

    def __init__(self, client: Any, bucket: str, cache: Path) -> None:
        self.client, self.bucket, self.cache = client, bucket, cache
        self.location = f"s3://{bucket}/models"
        self.store = self.reopened()

    def reopened(self, cache: Path | None = None, **limits: int) -> ObjectStore:
        return ObjectStore(Bucket(self.location), ModelCache(cache or self.cache), **limits)

    def limited(self, max_file_bytes: int) -> ModelStore:
        return self.reopened(max_file_bytes=max_file_bytes)

    def names(self) -> set[str]:
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self._key("")).get("Contents", ())
        return {one["Key"].removeprefix(self._key("")) for one in found}

    def read(self, name: str) -> bytes | None:
        if name not in self.names():
            return None
        return self.client.get_object(Bucket=self.bucket, Key=self._key(name))["Body"].read()

    def write(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self._key(name), Body=content)

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def copies(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir()) if self.cache.exists() else []

    def _key(self, name: str) -> str:
        return f"models/{MODEL}/{name}"


@pytest.fixture(params=["directory", "objects"])
def kind(request) -> str:
    """Every test of the contract runs on both stores, unless it names one."""
    return request.param


@pytest.fixture
def place(kind, tmp_path, request) -> Place:
    if kind == "directory":
        return DirectoryPlace(tmp_path / "models")
    server = request.getfixturevalue("object_server")
    return ObjectPlace(server.client(), server.make_bucket(), tmp_path / "cache")


def archive(payload: bytes = b"code", **changes: bytes) -> bytes:
    """A zip with the entries of TorchScript; `changes` replace or add some of them."""
    out = io.BytesIO()
    entries = {"constants.pkl": EMPTY_TUPLE, "data.pkl": EMPTY_TUPLE, "code/__torch__.py": payload}
    with zipfile.ZipFile(out, "w") as file:
        for name, content in {**entries, **changes}.items():
            file.writestr(f"model/{name}", content)
    return out.getvalue()


@pytest.fixture(scope="session")
def make_archive() -> Callable[..., bytes]:
    return archive


@pytest.fixture(scope="session")
def game() -> Game:
    return make("tic_tac_toe")


@pytest.fixture
def store(place) -> ModelStore:
    return place.store


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
