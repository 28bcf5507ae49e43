"""Opening of stored files: regular files only, never waiting, of bounded size.

Opening a pipe waits for its other end, and a device has no end. Every file that a service finds in its own directories is
therefore opened here, and anything but a regular file is an `OSError` that names it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["NOT_A_STORED_FILE", "append_plain", "open_plain", "read_plain"]

NOT_A_STORED_FILE = frozenset(
    {errno.EINVAL, errno.EFBIG, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENXIO}
)
"""Error numbers of a path at which no process of this system has written a file: trying again does not help."""


def open_plain(path: Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Return a descriptor of a regular file, or of a link to one, without waiting.

    Raises `OSError`, with EINVAL (or ENXIO) for a directory, pipe, socket or device.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_plain(path: Path, *, max_bytes: int | None = None) -> bytes:
    """Return the content of a regular file. Raises `OSError`, with EFBIG beyond `max_bytes`."""
    with os.fdopen(open_plain(path), "rb") as file:
        content = file.read(-1 if max_bytes is None else max_bytes + 1)
    if max_bytes is not None and len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"Larger than {max_bytes} bytes", str(path))
    return content


def append_plain(path: Path, text: str) -> None:
    """Append text, as UTF-8, to a regular file, which is created if absent. Raises `OSError` as `open_plain`."""
    with os.fdopen(open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        file.write(text.encode())
