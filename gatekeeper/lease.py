"""Lease: the exclusive right to promote, with epochs as fencing tokens against a former holder.

The model's directory holds two files. A lock, released by the operating system with its process, excludes a second
gatekeeper on the same machine. A file with the holder's name and the last epoch covers the cases a lock does not: file
systems whose locks do not reach other machines, and a holder that was suspended while the lock was broken. Each write of
the champion pointer first draws the next epoch, which only the named holder can; the store rejects an epoch that is not new.

A holder that is suspended while it writes the file must not take the lease back when it is resumed:

    former holder   complete file under a temporary name ─► still named? ─► rename       fails: the temporary file is gone
    new holder                                       rename of its own file ─► removal of temporary files ─► still named?

So a rename of the former holder comes before the removal, and is seen by the last question, or never.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic_core import from_json

from zerofleet.contracts.champions import MAX_EPOCH
from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, open_plain, read_plain
from zerofleet.errors import StaleEpoch, Unavailable
from zerofleet.storage.files import atomic_publish, drop_unfinished, make_directory, try_lock

__all__ = ["Lease"]

_MAX_BYTES = 64 << 10


class Lease:
    """A held lease; a context manager. Methods block on the disk."""

    def __init__(self, path: Path, holder: str, lock: int) -> None:
        self._path = path
        self.holder = holder
        self._lock: int | None = lock

    @classmethod
    def acquire(cls, directory: Path, *, above: int = 0) -> Self:
        """Take the lease of a model's directory. Epochs will be greater than `above` and than any earlier one.

        Raises `Unavailable` while another process holds it, with that process's name, and when the disk fails.
        """
        try:
            make_directory(directory)
        except OSError as error:
            raise Unavailable(f"cannot create {directory}: {error}") from error
        path = directory / "gatekeeper_lease.json"
        try:
            lock = open_plain(directory / ".gatekeeper.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Unavailable(
                f"cannot open {directory / '.gatekeeper.lock'}, want a file that this user may write: {error}"
            ) from error
        if not try_lock(lock):
            os.close(lock)
            holder = _read(path)[0] or "another process"
            raise Unavailable(f"the lease of {directory} is held by {holder} already; stop it before starting another")
        lease = cls(path, f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}", lock)
        try:
            lease._write(max(above, _read(path)[1]))
            lease._stop_others()
        except BaseException:
            lease.release()
            raise
        return lease

    def next_epoch(self, *, above: int = 0) -> int:
        """Return an epoch greater than `above` and than every earlier one, after storing it.

        Raises `StaleEpoch` when another process has taken the lease; `Unavailable` when a read or the write fails.
        """
        epoch = self.require_held()
        following = max(epoch, above) + 1
        self._write(following, confirm=self.require_held)
        return following

    def require_held(self) -> int:
        """Return the last epoch.

        Raises `StaleEpoch` when another process has taken the lease; `Unavailable` when the file cannot be read now.
        """
        try:
            holder, epoch = _parse(read_plain(self._path, max_bytes=_MAX_BYTES))
        except OSError as error:
            if error.errno != errno.ENOENT and error.errno not in NOT_A_STORED_FILE:
                raise Unavailable(f"cannot read {self._path}: {error}") from error
            holder, epoch = "", 0
        if holder != self.holder:
            raise StaleEpoch(f"the lease of {self._path.parent} is held by {holder or 'no process'}, not by {self.holder}")
        return epoch

    def release(self) -> None:
        """Release the lease; idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def _stop_others(self) -> None:
        """Stop writes of former holders that have not replaced the file yet. Raises `Unavailable`, also if one just has."""
        try:
            drop_unfinished(self._path)
            self.require_held()
        except OSError as error:
            raise Unavailable(f"cannot clean {self._path.parent}: {error}") from error
        except StaleEpoch as error:
            raise Unavailable(f"{error}; it was resumed at this moment") from error

    def _write(self, epoch: int, *, confirm: Callable[[], object] = lambda: None) -> None:
        try:
            atomic_publish(self._path, json.dumps({"holder": self.holder, "epoch": epoch}) + "\n", confirm=confirm)
        except OSError as error:
            raise Unavailable(f"cannot write {self._path}: {error}") from error


def _read(path: Path) -> tuple[str, int]:
    """Return holder and epoch; an empty name and 0 when the file is absent or unreadable."""
    try:
        return _parse(read_plain(path, max_bytes=_MAX_BYTES))
    except OSError:
        return "", 0


def _parse(text: bytes) -> tuple[str, int]:
    """Return holder and epoch; an empty name and 0 for anything else."""
    try:
        says = from_json(text)
        holder, epoch = str(says["holder"]), int(says["epoch"])
    except (ValueError, KeyError, TypeError, OverflowError):  # the last for an infinite epoch
        return "", 0
    return (holder, epoch) if 0 <= epoch <= MAX_EPOCH else ("", 0)
