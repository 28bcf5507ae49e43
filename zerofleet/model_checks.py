"""Whether the files of a stored version are what its manifest says: hashes, sizes, nothing extra, weights finite.

No format checks its own bits: a flipped byte and NaN weights load silently. And loading a TorchScript archive is running
code. So a version is read here, as plain bytes, before anything loads it.
"""

from __future__ import annotations

import hashlib
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from zerofleet.errors import CorruptModel
from zerofleet.manifests import Manifest, StoredFile

__all__ = ["MANIFEST_FILE", "MODEL_FILE", "WEIGHTS_FILE", "check_files", "describe_file", "require_plain_file"]

MANIFEST_FILE = "manifest.json"
MODEL_FILE = "model.pt"
WEIGHTS_FILE = "weights.safetensors"
_BYTECODE = re.compile(r"model\.[\w.-]+\.pyc")  # what Triton's Python writes beside model.py when it imports it


def describe_file(path: Path) -> StoredFile:
    """Hash a file without holding it in memory."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return StoredFile(digest.hexdigest(), file.tell())


def require_plain_file(path: Path, *, max_bytes: int) -> None:
    """Raise `CorruptModel` unless `path` is a regular file, not a link, of at most `max_bytes`."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise CorruptModel(f"{path} is missing; the version is incomplete: publish the model again") from None
    if not stat.S_ISREG(status.st_mode):
        raise CorruptModel(f"{path} is not a regular file; a link or device may not stand in a model's directory")
    if status.st_size > max_bytes:
        raise CorruptModel(f"{path} has {status.st_size} bytes, at most {max_bytes} are allowed")


def check_files(directory: Path, manifest: Manifest, *, max_bytes: int) -> None:
    """Raise `CorruptModel` unless `directory` holds exactly the files of the manifest, unchanged and loadable."""
    wanted = set(manifest.files) | {MANIFEST_FILE}
    if extra := sorted(set(_names(directory)) - wanted):
        raise CorruptModel(f"{directory} holds {', '.join(extra)}, which the manifest does not name; remove them")
    for name, stored in sorted(manifest.files.items()):
        path = directory / name
        if path.parent != directory:
            raise CorruptModel(f"{directory / MANIFEST_FILE} names {name!r}, a path out of its own directory")
        require_plain_file(path, max_bytes=max_bytes)
        found = describe_file(path)
        if found.size != stored.size:
            raise CorruptModel(f"{path} has {found.size} bytes, its manifest says {stored.size}; it was cut short or changed")
        if found.sha256 != stored.sha256:
            raise CorruptModel(
                f"{path} has sha256 {found.sha256[:16]}…, its manifest says {stored.sha256[:16]}…; it was changed"
            )
    if MODEL_FILE in manifest.files:
        _check_archive(directory / MODEL_FILE, max_bytes)
    if WEIGHTS_FILE in manifest.files:
        _check_weights(directory / WEIGHTS_FILE)


def _names(directory: Path) -> Iterator[str]:
    """Yield what a version directory holds, but for the bytecode that Triton's Python leaves there."""
    for entry in directory.iterdir():
        plain_cache = entry.name == "__pycache__" and not entry.is_symlink() and entry.is_dir()
        if not (plain_cache and all(_BYTECODE.fullmatch(file.name) for file in entry.iterdir())):
            yield entry.name


def _check_archive(path: Path, max_bytes: int) -> None:
    """A TorchScript archive is a zip with code and constants; anything else, a pickle above all, is never loaded."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise CorruptModel(f"{path} is not a TorchScript archive ({error}); it will not be loaded") from error
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max_bytes:
        raise CorruptModel(f"{path} unpacks to {unpacked} bytes, at most {max_bytes} are allowed")
    names = [entry.filename.partition("/")[2] for entry in entries]
    if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
        raise CorruptModel(f"{path} is a zip archive without TorchScript code; it will not be loaded")


def _check_weights(path: Path) -> None:
    try:
        weights = load_file(path)
    except (SafetensorError, KeyError, ValueError) as error:
        raise CorruptModel(f"{path} cannot be read as safetensors: {error}") from error
    for name, tensor in weights.items():
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise CorruptModel(f"{path}: tensor {name} is not finite; training diverged or the file was changed")
