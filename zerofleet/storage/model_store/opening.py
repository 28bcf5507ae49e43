"""Opening a model store by its location."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from zerofleet.errors import ConfigurationError
from zerofleet.storage.model_store.base import ModelStore
from zerofleet.storage.model_store.cache import DEFAULT_CACHE_BYTES, ModelCache
from zerofleet.storage.model_store.directory import DirectoryStore
from zerofleet.storage.model_store.location import StoreLocation, parse_location

__all__ = ["open_model_store"]


def open_model_store(
    location: StoreLocation, *, cache: Path | None = None, cache_bytes: int = DEFAULT_CACHE_BYTES
) -> ModelStore:
    """Return the store in a directory or at `s3://bucket/prefix`, without any access yet.

    `cache` is the directory for local copies of an object store's models, by default a temporary one of this user. Raises
    `ConfigurationError` for an invalid URL, or when the extra `s3` is not installed.
    """
    place = parse_location(location)
    if isinstance(place, Path):
        return DirectoryStore(place)
    try:
        from zerofleet.storage.model_store.bucket import Bucket  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        if error.name != "botocore":
            raise
        raise ConfigurationError(
            f"model store {place} is in an object store and boto3 is not installed; pip install zerofleet[s3]"
        ) from error
    from zerofleet.storage.model_store.objects import ObjectStore  # noqa: PLC0415

    root = cache or Path(tempfile.gettempdir()) / f"zerofleet-{os.getuid()}-models"
    return ObjectStore(Bucket(place), ModelCache(root, max_bytes=cache_bytes))
