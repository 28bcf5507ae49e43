"""Local cache of versions in an object store: complete copies, bounded size, shared by processes.

A copy is filled under a temporary name, checked and renamed, so a named copy is complete. Its name contains a hash of its
content, so a copy is never stale. Least recently used copies are evicted when the total exceeds the bound, except those
used within the last minutes, which may be being loaded.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.storage.files import TEMPORARY_SUFFIX

__all__ = ["DEFAULT_CACHE_BYTES", "ModelCache"]

DEFAULT_CACHE_BYTES = 4 << 30
IN_USE_S = 600.0
ABANDONED_S = 86_400.0
_ATTEMPTS = 3
_NAME = r"[a-z][a-z0-9_]*-[0-9]+(-[0-9a-f]+)?"
_COPY = re.compile(rf"{_NAME}|\.{_NAME}\.[0-9a-f-]+{re.escape(TEMPORARY_SUFFIX)}")


class ModelCache:
    """Directory of copies with a total of at most `max_bytes`."""

    def __init__(self, root: Path, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.root = root
        self._max_bytes = max_bytes

    def directory(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Return the copy with this name, creating it with `fill` if absent; an exception of `fill` leaves nothing behind.

        Raises `Unavailable` on a disk error, `ConfigurationError` when the cache belongs to another user.
        """
        found = self.root / name
        try:
            self._open()
            for _ in range(_ATTEMPTS):
                with suppress(FileNotFoundError):  # absent, or being pruned by another process
                    os.utime(found)
                    return found
                self._make(found, fill)
                self._prune(keep=found)
        except OSError as error:
            raise Unavailable(
                f"cannot store a copy of a model in {self.root}: {error}; free space or set another cache"
            ) from error
        return found

    def discard(self, copy: Path) -> None:
        """Remove a copy."""
        doomed = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
        with suppress(FileNotFoundError):
            copy.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def _open(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        root = self.root.lstat()
        if not stat.S_ISDIR(root.st_mode):
            raise ConfigurationError(f"{self.root} is no directory; set ZEROFLEET_MODEL_CACHE to a directory of your own")
        if root.st_uid != os.getuid():
            raise ConfigurationError(
                f"{self.root} belongs to another user, who could change models that run here; set ZEROFLEET_MODEL_CACHE to a"
                " directory of your own"
            )

    def _make(self, found: Path, fill: Callable[[Path], None]) -> None:
        staging = found.with_name(f".{found.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
        staging.mkdir()
        try:
            fill(staging)
            try:
                staging.rename(found)
            except OSError:
                if not found.is_dir():  # else another process was faster, with the same content
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _prune(self, *, keep: Path) -> None:
        """Evict copies until the rest fits, and remove unfinished ones abandoned long ago; other directories are left alone."""
        now_s, copies = time.time(), []
        for entry in self.root.iterdir():
            if not _COPY.fullmatch(entry.name):
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                used_at_s = entry.stat().st_mtime
                if not entry.name.endswith(TEMPORARY_SUFFIX):
                    copies.append((used_at_s, sum(file.stat().st_size for file in entry.iterdir()), entry))
                elif now_s - used_at_s > ABANDONED_S:
                    shutil.rmtree(entry, ignore_errors=True)
        excess = sum(size for _, size, _ in copies) - self._max_bytes
        for used_at_s, size, entry in sorted(copies):
            if excess <= 0 or now_s - used_at_s < IN_USE_S:
                return
            if entry != keep:
                self.discard(entry)
                excess -= size
