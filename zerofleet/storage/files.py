"""Files are published, not written: readers see the old content or the new one, never a part of either.

`atomic_publish` is the only writer of small files. After it returns, the content survives a crash of the process and of
the machine. Files that grow line by line are read by `whole_lines`, and locked by `try_lock` for one writer at a time.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import IO

__all__ = ["TEMPORARY_SUFFIX", "atomic_publish", "sync_directory", "try_lock", "whole_lines"]

TEMPORARY_SUFFIX = ".tmp"
"""Names that end so are unfinished; readers of a directory pass over them."""


def atomic_publish(path: Path, data: bytes | str, *, mode: int = 0o666) -> None:
    """Make `data` (text as UTF-8) the content of `path`, durably, replacing what was there; `mode` less what the umask takes.

    The directory must exist. Two writers at once are safe: the last one wins whole. Raises `OSError` (disk full,
    read-only); then `path` is as it was. A process killed half-way leaves a file ending in `.tmp`, which nobody reads.
    """
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable: a rename or a new file is on disk only after this."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Take the lock of an open file or directory; return whether nobody else holds it.

    The kernel lets it go when the file is closed, or when the process ends, however it ends.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def whole_lines(content: bytes) -> bytes:
    """Return `content` without what follows its last line end: a process that was killed may leave a line cut short."""
    return content[: content.rfind(b"\n") + 1]
