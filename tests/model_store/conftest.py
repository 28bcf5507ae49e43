"""Directories and buckets as places of a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from games.core import Game, make
from zerofleet.contracts.manifests import Manifest
from zerofleet.storage.model_store import DirectoryStore, ModelStore
from zerofleet.storage.model_store.bucket import Bucket
from zerofleet.storage.model_store.cache import ModelCache
from zerofleet.storage.model_store.objects import ObjectStore
from zerofleet.testing import StorePlace
from zerofleet.testing.models import MODEL, sample_archive, sample_files, sample_manifest


class Place(StorePlace, Protocol):
    """A place of which tests ask more than those of the contract."""

    location: str

    def limited(self, max_file_bytes: int) -> ModelStore: ...
    def names(self) -> set[str]: ...


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


@pytest.fixture(scope="session")
def make_archive() -> Callable[..., bytes]:
    return sample_archive


@pytest.fixture(scope="session")
def game() -> Game:
    return make(MODEL)


@pytest.fixture
def store(place) -> ModelStore:
    return place.store


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    return sample_manifest()


@pytest.fixture
def files() -> Callable[..., dict[str, bytes]]:
    return sample_files
