"""Lock on one compilation among the processes that share a compile cache.

The services of a fleet start together and need the same code. Without the lock each of them compiles it on a fresh cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["only_one"]

_PATIENCE_SECONDS = 300.0  # several times the longest compilation: a suspended process must not stop the others
_QUIET_SECONDS = 20.0
_POLL_SECONDS = 0.05

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, which exists only meanwhile; a killed holder's lock is free.

    After five minutes of waiting, and in a directory that cannot be written, the block runs without the lock. A wait of more
    than 20 s is logged, as is its end without the lock.
    """
    held = _take(path)
    try:
        yield
    finally:
        if held is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)  # before the release: who takes the file next compares it with the path
                fcntl.flock(held, fcntl.LOCK_UN)  # a process forked meanwhile keeps the file open
            os.close(held)


def _take(path: Path) -> int | None:
    """Return the descriptor of the locked file, or None."""
    begin_s, is_logged = time.monotonic(), False
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        while not _locked(descriptor):
            waited_s = time.monotonic() - begin_s
            if waited_s > _PATIENCE_SECONDS:
                os.close(descriptor)
                _log.warning("%s is still locked after %.0f s; compiling without the lock", path, waited_s)
                return None
            if waited_s > _QUIET_SECONDS and not is_logged:
                is_logged = True
                _log.warning("another process compiles the same code, lock %s; waiting up to %.0f s", path, _PATIENCE_SECONDS)
            time.sleep(_POLL_SECONDS)
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # its holder has removed it


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
