"""Integrity checks of a stored version against its manifest: hashes, sizes, no extra files, finite weights.

The formats have no checksums: a flipped byte and NaN weights load silently, and loading a TorchScript archive executes
code. A version is therefore checked as plain bytes before anything loads it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickletools
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from zerofleet.contracts.manifests import Manifest, StoredFile, require_golden
from zerofleet.contracts.pacing import give_way
from zerofleet.contracts.plain_files import open_plain
from zerofleet.errors import CorruptModel

__all__ = [
    "MANIFEST_FILE",
    "MODEL_FILE",
    "WEIGHTS_FILE",
    "check_files",
    "describe_file",
    "require_contents",
    "require_plain_file",
]

MANIFEST_FILE = "manifest.json"
MODEL_FILE = "model.pt"
WEIGHTS_FILE = "weights.safetensors"
VERSION_FILES = frozenset({MODEL_FILE, WEIGHTS_FILE, "model.py"})  # every version has these beside its manifest
_BYTECODE = re.compile(r"model\.[\w.-]+\.pyc")  # written by Triton's Python beside an imported model.py
_CHUNK_BYTES = 1 << 20
_LONGEST_NAME_SHOWN = 60
_STRIDE = 64  # operations of a pickle, about 0.1 ms

# Globals and operations in the pickles of a TorchScript archive. The exporter writes no others.
_GLOBALS = re.compile(
    r"__torch__\.[\w.]+ \w+|torch \w+Storage|torch\._utils _rebuild_tensor_v2|torch\.jit\._pickle \w+|collections OrderedDict"
)
_OPERATIONS = frozenset({
    "PROTO", "STOP", "MARK", "GLOBAL", "NEWOBJ", "REDUCE", "BUILD", "BINPERSID", "BINPUT", "LONG_BINPUT", "BINGET",
    "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE",
    "BINSTRING", "SHORT_BINSTRING", "EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "APPEND", "APPENDS", "SETITEM", "SETITEMS",
})  # fmt: skip
_MEMO_WRITES = frozenset({"BINPUT", "LONG_BINPUT"})
_MEMO_READS = frozenset({"BINGET", "LONG_BINGET"})
_STORAGES = {
    "torch FloatStorage": "<f4",
    "torch DoubleStorage": "<f8",
    "torch HalfStorage": "<f2",
    "torch BFloat16Storage": "bfloat16",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ShortStorage": "<i2",
    "torch CharStorage": "|i1",
    "torch ByteStorage": "|u1",
    "torch BoolStorage": "|b1",
}


def describe_file(path: Path) -> StoredFile:
    """Return hash and size of a regular file, read in chunks. Raises `OSError`."""
    with os.fdopen(open_plain(path), "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return StoredFile(digest.hexdigest(), file.tell())


def require_plain_file(path: Path, *, max_bytes: int) -> None:
    """Raise `CorruptModel` unless `path` is a regular file, not a link, of at most `max_bytes`."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise CorruptModel(f"{path} is missing; the version is incomplete: publish the model again") from None
    if not stat.S_ISREG(status.st_mode):
        raise CorruptModel(f"{path} is not a regular file; links and devices are not allowed in a model's directory")
    if status.st_size > max_bytes:
        raise CorruptModel(f"{path} has {status.st_size} bytes, at most {max_bytes} are allowed")


def require_contents(manifest: Manifest, *, where: str) -> None:
    """Raise `CorruptModel` unless a manifest names exactly the files of a version and has valid golden positions."""
    if unknown := sorted(set(manifest.files) - VERSION_FILES):
        raise CorruptModel(
            f"{where} names {unknown[0][:_LONGEST_NAME_SHOWN]!r}; a version has {', '.join(sorted(VERSION_FILES))}"
        )
    if missing := sorted(VERSION_FILES - set(manifest.files)):
        raise CorruptModel(f"{where} does not name {', '.join(missing)}; the version is incomplete: publish the model again")
    require_golden(manifest)


def check_files(directory: Path, manifest: Manifest, *, max_bytes: int) -> None:
    """Raise `CorruptModel` unless `directory` holds exactly the files in the manifest, unchanged and loadable.

    Raises `OSError` on a disk error.
    """
    require_contents(manifest, where=str(directory / MANIFEST_FILE))
    if extra := sorted(set(_names(directory)) - VERSION_FILES - {MANIFEST_FILE}):
        raise CorruptModel(
            f"{directory} holds {', '.join(map(repr, extra[:3]))}, which the manifest does not name; remove them"
        )
    for name, stored in sorted(manifest.files.items()):
        path = directory / name
        give_way()
        require_plain_file(path, max_bytes=max_bytes)
        found = describe_file(path)
        if found.size != stored.size:
            raise CorruptModel(f"{path} has {found.size} bytes, its manifest lists {stored.size}; it was truncated or changed")
        if found.sha256 != stored.sha256:
            raise CorruptModel(
                f"{path} has sha256 {found.sha256[:16]}…, its manifest lists {stored.sha256[:16]}…; it was changed"
            )
    _check_archive(directory / MODEL_FILE, max_bytes)
    _check_weights(directory / WEIGHTS_FILE)


def _names(directory: Path) -> Iterator[str]:
    """Yield the entries of a version directory, except bytecode left by Triton's Python."""
    for entry in directory.iterdir():
        plain_cache = entry.name == "__pycache__" and not entry.is_symlink() and entry.is_dir()
        if not (plain_cache and all(_BYTECODE.fullmatch(file.name) for file in entry.iterdir())):
            yield entry.name


def _check_archive(path: Path, max_bytes: int) -> None:
    """Raise `CorruptModel` unless a file is a TorchScript archive: a zip with code, constants and finite tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive.infolist(), max_bytes)
            for entry in archive.infolist():
                give_way()
                folder = {"data.pkl": "data", "constants.pkl": "constants"}.get(entry.filename.partition("/")[2])
                if entry.filename.endswith("pkl"):
                    storages = _storages(archive.read(entry), where=f"{path}: {entry.filename}")
                    for key, storage in storages.items():
                        give_way()
                        name = f"{entry.filename.partition('/')[0]}/{folder}/{key}"
                        if not _is_finite(archive, name, _STORAGES[storage]):
                            raise CorruptModel(f"{path}: {name} is not finite; training diverged or the file was changed")
    except (zipfile.BadZipFile, RuntimeError, KeyError, ValueError, EOFError, OverflowError, struct.error, zlib.error) as error:
        raise CorruptModel(f"{path} is not a TorchScript archive ({error}); refusing to load it") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to wherever a directory points, also before the file
            raise
        raise CorruptModel(f"{path} is a damaged archive ({error}); refusing to load it") from error


def _check_entries(path: Path, entries: list[zipfile.ZipInfo], max_bytes: int) -> None:
    """Raise `CorruptModel` unless the archive is unambiguous to every reader and fits into memory."""
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max_bytes:
        raise CorruptModel(f"{path} unpacks to {unpacked} bytes, at most {max_bytes} are allowed")
    names = [entry.filename.partition("/")[2] for entry in entries]
    if not {"constants.pkl", "data.pkl"} <= set(names) or not any(name.startswith("code/") for name in names):
        raise CorruptModel(f"{path} is a zip archive without TorchScript code; refusing to load it")
    if len({entry.filename.partition("/")[0] for entry in entries}) > 1 or len(set(names)) < len(names):
        raise CorruptModel(f"{path} holds two folders or a duplicate name, which TorchScript never writes; refusing to load it")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise CorruptModel(f"{path} uses a compression that TorchScript never writes; refusing to load it")


def _storages(pickled: bytes, *, where: str) -> dict[str, str]:
    """Return the type of each tensor storage in a TorchScript pickle, by key, without unpickling.

    Raises `CorruptModel` for operations and names that TorchScript does not write, `ValueError` for a damaged pickle.
    """
    found: dict[str, str] = {}
    memo: dict[object, object] = {}
    values: list[object] = []  # since the last mark
    before = ""
    for number, (opcode, argument, _) in enumerate(pickletools.genops(pickled)):
        operation = opcode.name
        if not number % _STRIDE:
            give_way()
        if operation not in _OPERATIONS or (operation == "GLOBAL" and not _GLOBALS.fullmatch(str(argument))):
            shown = f"{operation} {str(argument)[:_LONGEST_NAME_SHOWN]!r}"
            raise CorruptModel(f"{where} holds {shown}, which TorchScript never writes; refusing to load it")
        if operation == "MARK":
            values = []
        elif operation in _MEMO_WRITES:
            memo[argument] = values[-1] if values else None
            continue
        elif operation == "BINPERSID":
            key, storage = _storage(values) if before == "TUPLE" else ("", "")
            if found.setdefault(key, storage) != storage or storage not in _STORAGES:
                raise CorruptModel(f"{where} names a tensor in a form that TorchScript never writes; refusing to load it")
        elif operation != "TUPLE":
            values.append(memo.get(argument) if operation in _MEMO_READS else argument)
        before = operation
    return found


def _storage(values: list[object]) -> tuple[str, str]:
    """Return key and type from the parts of a persistent id: `storage`, type, key, device, size."""
    match values:
        case ["storage", str(storage), str(key), str(), int()]:
            return key, storage
    return "", ""


def _is_finite(archive: zipfile.ZipFile, name: str, dtype: str) -> bool:
    """Return whether all numbers of a storage are finite (integers always). Raises `KeyError` when it is missing."""
    with archive.open(name) as file:
        while dtype == "bfloat16" or dtype[1] == "f":
            chunk = file.read(_CHUNK_BYTES)
            if not chunk:
                break
            if dtype == "bfloat16":
                numbers = (np.frombuffer(chunk, "<u2").astype("<u4") << 16).view("<f4")
            else:
                numbers = np.frombuffer(chunk, dtype)
            if not np.isfinite(numbers).all():
                return False
    return True


def _check_weights(path: Path) -> None:
    give_way()
    try:
        weights = load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CorruptModel(f"{path} is not a valid safetensors file: {error}") from error
    if not weights:
        raise CorruptModel(f"{path} holds no tensors; publish the model again")
    for name, tensor in weights.items():
        give_way()
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise CorruptModel(f"{path}: tensor {name} is not finite; training diverged or the file was changed")
