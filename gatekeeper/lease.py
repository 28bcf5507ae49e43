"""Lease: the right to promote, held by one gatekeeper at a time, with the epochs that fence off a former holder.

Two things lie in the model's directory. A lock that the operating system drops with its process keeps a second gatekeeper
of the same machine out. A file with the holder's name and the last epoch covers what a lock cannot: file systems on which
locks do not reach other machines, and a holder that slept while somebody broke the lock. Each write of the champion
pointer first takes the next epoch, which only the named holder can; and the store refuses an epoch that is not new.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from zerofleet.errors import StaleEpoch, Unavailable
from zerofleet.storage.files import atomic_publish, try_lock

__all__ = ["Lease"]


class Lease:
    """A held lease; usable in `with`. Methods block on the disk."""

    def __init__(self, path: Path, holder: str, lock: int) -> None:
        self._path = path
        self.holder = holder
        self._lock: int | None = lock

    @classmethod
    def acquire(cls, directory: Path, *, above: int = 0) -> Self:
        """Take the lease of a model's directory. Epochs will be greater than `above` and than any given out before.

        Raises `Unavailable` while another process holds it, naming that process.
        """
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "gatekeeper_lease.json"
        lock = os.open(directory / ".gatekeeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not try_lock(lock):
            os.close(lock)
            holder = _read(path)[0] or "another process"
            raise Unavailable(f"the gatekeeper of {directory} is {holder} already; stop it before starting another")
        lease = cls(path, f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}", lock)
        try:
            lease._write(max(above, _read(path)[1]))
        except BaseException:
            lease.release()
            raise
        return lease

    def next_epoch(self, *, above: int = 0) -> int:
        """Return an epoch greater than `above` and than every earlier one, and take note of it.

        Raises `StaleEpoch` when somebody else has taken the lease; `Unavailable` when the disk refuses.
        """
        holder, epoch = _read(self._path)
        if holder != self.holder:
            raise StaleEpoch(f"the lease of {self._path.parent} is held by {holder or 'nobody'}, not by {self.holder} any more")
        following = max(epoch, above) + 1
        self._write(following)
        return following

    def release(self) -> None:
        """Let another process take the lease. Calling it twice is harmless."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def _write(self, epoch: int) -> None:
        try:
            atomic_publish(self._path, json.dumps({"holder": self.holder, "epoch": epoch}) + "\n")
        except OSError as error:
            raise Unavailable(f"cannot write {self._path}: {error}") from error


def _read(path: Path) -> tuple[str, int]:
    """Return holder and epoch; nobody and 0 when the file is absent or says nothing that can be understood."""
    try:
        says = json.loads(path.read_bytes())
        return str(says["holder"]), int(says["epoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", 0
