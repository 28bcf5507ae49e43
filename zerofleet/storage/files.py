"""Atomic files: readers see either the old content or the new, never a part.

`atomic_publish` is the only writer of small files. Once it returns, the content survives a crash of the process and of
the machine. Append-only files are read with `whole_lines` and locked with `try_lock` for one writer at a time.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from zerofleet.contracts.plain_files import open_plain
from zerofleet.errors import InvalidRequest

__all__ = [
    "TEMPORARY_SUFFIX",
    "atomic_publish",
    "drop_partial_line",
    "drop_unfinished",
    "end_of_lines",
    "make_directory",
    "require_place",
    "sync_directory",
    "try_lock",
    "whole_lines",
]

TEMPORARY_SUFFIX = ".tmp"
"""Suffix of unfinished files, which readers of a directory ignore."""
_CHUNK_BYTES = 1 << 20


def atomic_publish(path: Path, data: bytes | str, *, mode: int = 0o666, confirm: Callable[[], object] = lambda: None) -> None:
    """Replace the content of `path` by `data` (text as UTF-8), atomically and durably; the umask applies to `mode`.

    The directory must exist. Concurrent writers are safe: the last one wins. Raises `OSError` (disk full, read-only) and
    then leaves `path` unchanged, unless the directory alone cannot be written out: the content is then replaced, but may be the
    old one after a loss of power. A killed process leaves a file ending in `.tmp`, which readers ignore.

    `confirm` is called when the content is durable under a temporary name and has not replaced the old one; what it raises
    propagates and leaves `path` unchanged. After it only the removal of the temporary file stops the replacement: see
    `drop_unfinished`.
    """
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        confirm()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def require_place(path: Path) -> None:
    """Raise `InvalidRequest` unless `atomic_publish` can write a file at `path`; called before hours of work."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidRequest(f"{path} cannot be written: it is a directory; name a file")
    if not folder.is_dir():
        raise InvalidRequest(f"{path} cannot be written: {folder} is not a directory; create it, or choose another place")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidRequest(f"{path} cannot be written: {folder} may not be written to; choose another place")


def drop_unfinished(path: Path) -> None:
    """Remove the temporary files of `atomic_publish` for `path`: a suspended process can then no longer replace it."""
    for temporary in path.parent.glob(f"{path.name}.*{TEMPORARY_SUFFIX}"):
        temporary.unlink(missing_ok=True)


def make_directory(directory: Path) -> None:
    """Create a directory with its parents where they are missing; once it returns, their names survive a power loss.

    The names are also synced where it exists, as a process may have been killed between their creation and its sync. That ends
    at the root of the file system that holds it, or below a directory that may not be read. Raises `OSError`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    place = directory.resolve()
    while not place.is_mount():
        place = place.parent
        try:
            sync_directory(place)
        except PermissionError:
            return


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable: a rename or a new file is on disk only after this."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Try to lock an open file or directory; return whether it succeeded.

    The kernel releases the lock when the file is closed or the process ends.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def whole_lines(content: bytes) -> bytes:
    """Return `content` up to its last line end: a killed process may leave a partial last line."""
    return content[: content.rfind(b"\n") + 1]


def drop_partial_line(path: Path) -> None:
    """Truncate a file of lines after its last line end; a missing file stays missing.

    Raises `OSError`, also for anything but a regular file.
    """
    try:
        descriptor = open_plain(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        size_bytes = os.fstat(descriptor).st_size
        if (end := end_of_lines(descriptor, size_bytes)) < size_bytes:
            os.ftruncate(descriptor, end)
    finally:
        os.close(descriptor)


def end_of_lines(descriptor: int, size_bytes: int) -> int:
    """Return the length of the whole lines in the first `size_bytes` of a file, of which only the end is read."""
    end = size_bytes
    while end > 0:
        begin = max(0, end - _CHUNK_BYTES)
        place = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        end = begin
    return 0
