"""Shares: distribution of the warm start's games over workers, and the record of those played.

The workers of a machine share a file with one byte for each game. The worker that plays a game holds the lock of its byte,
and writes the byte when the stream has or refuses the game. The kernel releases the locks of a dead process, so another worker,
or the next process, plays its unfinished games. Workers without a common file play the same games; by uid they count once.
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
    """View of the file in one process. Not thread-safe."""

    def __init__(self, path: Path, games: int, *, first: int = 0) -> None:
        """Distribute games 0 to `games` - 1, beginning with `first`; different starting points reduce contention."""
        self._games = games
        self._first = first % games
        self._held: set[int] = set()
        self._unmarked: set[int] = set()  # done, and known to this process alone
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            log.warning("warm_start.not_shared", path=str(path), error=str(error), advice="games may be played in vain")
            with tempfile.TemporaryFile() as nameless:
                self._file = os.dup(nameless.fileno())

    def take(self) -> int | None:
        """Lock a game that is neither played nor in progress and return its number; None if there is none."""
        marks = self._marks()
        for step in range(self._games):
            number = (self._first + step) % self._games
            if marks[number] or number in self._held:
                continue
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except OSError:  # another process plays it
                continue
            self._held.add(number)
            if not self._marks()[number]:
                return number
            self.give_back(number)  # it was finished between the check and the lock
        return None

    def finish(self, number: int) -> None:
        """Mark a game as done and unlock it; one that cannot be marked stays locked by this process, which counts it as done.

        Another process may play it later: the stream counts it once.
        """
        try:
            os.pwrite(self._file, _DONE, number)
        except OSError as error:
            log.warning("shares.not_marked", game=number, error=str(error))
            self._unmarked.add(number)
            return
        self.give_back(number)

    def give_back(self, number: int) -> None:
        """Unlock a game, so that others can take it."""
        self._held.discard(number)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    @property
    def finished(self) -> int:
        """Number of games that the stream has or has refused."""
        marks = self._marks()
        return self._games - marks.count(0) + sum(not marks[number] for number in self._unmarked)

    def forget(self) -> None:
        """Clear all marks, so that every game is played again: a power failure may lose games but keep their marks.

        Games that could not be marked are unlocked. Call it while no game of this process is in progress.
        """
        os.ftruncate(self._file, 0)
        while self._unmarked:
            self.give_back(self._unmarked.pop())

    def close(self) -> None:
        """Close the file, which releases all locks."""
        os.close(self._file)

    def _marks(self) -> bytes:
        """Return a byte for each game, 0 for one not yet played."""
        return os.pread(self._file, self._games, 0).ljust(self._games, b"\0")
