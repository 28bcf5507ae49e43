"""Files of a cache directory, which may be lost, damaged or old at any time: readers get what was written, or nothing.

The first line has the hash of a key, which names all that determines the content, and the hash of the content.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import structlog

from zerofleet.storage.files import TEMPORARY_SUFFIX, atomic_publish, make_directory

__all__ = ["cache_name", "read_cached", "write_cached"]

MOST_FILES = 128
"""Files of a cache directory; the oldest are removed."""
SUFFIX = ".cached"
UNFINISHED_S = 3600.0  # age at which an unfinished file is no longer being written

log = structlog.get_logger()


def cache_name(text: str) -> str:
    """Return the name of the file of something that a text names, such as a path."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() + SUFFIX


def read_cached(path: Path, key: str) -> bytes | None:
    """Return the content that this release wrote under the same key, None without it."""
    try:
        first, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return content if first == _first_line(key, content) else None


def write_cached(path: Path, key: str, content: bytes) -> None:
    """Write a content, readable by this user alone. A directory that cannot be written is logged."""
    try:
        make_directory(path.parent)
        atomic_publish(path, _first_line(key, content) + b"\n" + content, mode=0o600)
        _remove_oldest(path.parent)
    except OSError as error:
        log.warning("cache.not_written", path=str(path), error=str(error))


def _remove_oldest(directory: Path) -> None:
    """Remove all but the newest files, and those that a killed process left unfinished."""
    until_s = time.time() - UNFINISHED_S
    times: dict[Path, float] = {}
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another process removes files, too
            times[path] = path.stat().st_mtime
    for path in sorted((one for one in times if one.name.endswith(SUFFIX)), key=times.__getitem__)[:-MOST_FILES]:
        path.unlink(missing_ok=True)
    for path, time_s in times.items():
        if SUFFIX in path.name and path.name.endswith(TEMPORARY_SUFFIX) and time_s < until_s:
            path.unlink(missing_ok=True)


def _first_line(key: str, content: bytes) -> bytes:
    release = metadata.version("zerofleet")
    return " ".join(hashlib.blake2b(one, digest_size=32).hexdigest() for one in (f"{release} {key}".encode(), content)).encode()
