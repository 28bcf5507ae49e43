"""Directory of the socket between the device's process and its front ends, in the temporary folder, of this user alone.

The process holds the kernel's lock on its directory (flock), which ends with the process, however it ends. What a killed
process left is removed at the next start: directories of this user whose lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["PREFIX", "socket_directory"]

PREFIX = "zf-front-ends-"
"""Beginning of the name; that of earlier versions, whose directories have no lock, is another one."""


@contextmanager
def socket_directory() -> Iterator[Path]:
    """Create a directory and remove it at the end; before, remove those of dead processes. Raises `OSError`."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # no directory, of another user, in use, or removed by another start
            _remove_stale(path)
    path, descriptor = _created()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _remove_stale(path: Path) -> None:
    """Remove a directory of a dead process. Raises `OSError` for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(f"{path} is of another user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(descriptor)


def _created() -> tuple[Path, int]:
    """Return a new directory, and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):  # another start found it without its lock, and removed it
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                path.stat()
            except BaseException:
                os.close(descriptor)
                raise
            return path, descriptor
