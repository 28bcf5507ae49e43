"""Shares: which worker plays which game of the warm start, and which games are played.

The workers of a machine share a file with one byte for each game. Whoever plays a game holds the lock of its byte, and writes
the byte when the stream has the game. The kernel frees the locks of a process that dies, so another worker, or the next
process, plays what it had begun. Workers without a common file play the same games; by their uids they count once.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import structlog

__all__ = ["Shares"]

_DONE = b"\x01"

log = structlog.get_logger()


class Shares:
    """One process's view of the file. Not for threads."""

    def __init__(self, path: Path, games: int, *, first: int = 0) -> None:
        """Take games 0 to `games` - 1, beginning with `first`; workers that begin in different places meet late."""
        self._games = games
        self._first = first % games
        self._held: set[int] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            log.warning("warm_start.not_shared", path=str(path), error=str(error), advice="games may be played in vain")
            with tempfile.TemporaryFile() as nameless:
                self._file = os.dup(nameless.fileno())

    def take(self) -> int | None:
        """Return the number of a game that is not played and that nobody plays; None if there is none."""
        marks = self._marks()
        for step in range(self._games):
            number = (self._first + step) % self._games
            if marks[number] or number in self._held:
                continue
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError:  # somebody else plays it
                continue
            self._held.add(number)
            if not self._marks()[number]:
                return number
            self.give_back(number)  # it was finished between the look and the lock
        return None

    def finish(self, number: int) -> None:
        """Note that a game is in the stream."""
        os.pwrite(self._file, _DONE, number)
        self.give_back(number)

    def give_back(self, number: int) -> None:
        """Leave a game that was taken to others."""
        self._held.discard(number)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    @property
    def finished(self) -> int:
        """Games that are in the stream."""
        return self._games - self._marks().count(0)

    def forget(self) -> None:
        """Have every game played again: a machine that lost power may have lost games, and not the marks of them."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Give up what is held."""
        os.close(self._file)

    def _marks(self) -> bytes:
        """Return a byte for each game, 0 where it is not played."""
        return os.pread(self._file, self._games, 0).ljust(self._games, b"\0")
