"""Index from uid to game number of the file that grows, in 24 bytes per game; full files are in `sorted_uids`.

A dictionary would take about 200 bytes per game, 2 GB for ten million. Only the latest few thousand games are in one; all
others are in sorted arrays, each more than twice as long as the next, so a game is moved only a few times.
"""

from __future__ import annotations

import numpy as np

from zerofleet.storage.game_log.format import LOST, UID_DTYPE, Table

__all__ = ["UidIndex", "UidTables"]

RECENT_GAMES = 4096

_Run = tuple[np.ndarray, np.ndarray]  # keys S16 [n], sorted, and the number of each, int64 [n]


class UidIndex:
    """Growing map from uid (16 bytes) to game number."""

    def __init__(self) -> None:
        # Replaced as one object, so that a reader in another thread finds each game in its old or new place.
        self._runs: tuple[_Run, ...] = ()
        self._recent: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._runs) + len(self._recent)

    def add(self, uid: bytes, number: int) -> None:
        """Add one game."""
        self._recent[uid] = number
        if len(self._recent) >= RECENT_GAMES:
            self.seal()

    def find(self, uid: bytes) -> int | None:
        """Return the number of a game, or None."""
        recent = self._recent.get(uid)
        if recent is not None:
            return recent
        key = np.bytes_(uid)
        for keys, numbers in self._runs:
            at = int(np.searchsorted(keys, key))
            # numpy strips trailing zero bytes of an element.
            if at < len(keys) and keys[at].ljust(16, b"\0") == uid:
                return int(numbers[at])
        return None

    def starting_with(self, prefix: str) -> list[int]:
        """Return the numbers of the games whose uid begins with these hex digits, ascending."""
        low, high = (bytes.fromhex(prefix.ljust(32, digit)) for digit in "0f")
        found = {number for uid, number in list(self._recent.items()) if low <= uid <= high}
        for keys, numbers in self._runs:
            first, end = np.searchsorted(keys, np.bytes_(low), "left"), np.searchsorted(keys, np.bytes_(high), "right")
            found.update(numbers[first:end].tolist())
        return sorted(found)

    def seal(self, uids: np.ndarray | None = None, numbers: np.ndarray | None = None) -> None:
        """Move recent games to sorted arrays, together with `uids` S16 [n] and `numbers` int64 [n]."""
        keys = np.array(list(self._recent), dtype=UID_DTYPE)
        values = np.array(list(self._recent.values()), dtype=np.int64)
        if uids is not None and numbers is not None:
            keys, values = np.concatenate([keys, uids]), np.concatenate([values, numbers])
        keys, first = np.unique(keys, return_index=True)
        run, runs = (keys, values[first]), list(self._runs)
        while runs and len(runs[-1][0]) <= 2 * len(run[0]):
            run = _merged(runs.pop(), run)
        self._runs = (*runs, run)
        self._recent = {}


def _merged(older: _Run, newer: _Run) -> _Run:
    at = np.searchsorted(older[0], newer[0])
    return np.insert(older[0], at, newer[0]), np.insert(older[1], at, newer[1])


class UidTables:
    """Uids in the tables of full files, for readers, which look up few of them.

    A look-up compares all of them, some milliseconds for a million. Nothing is sorted at the start, and only pages of
    the files, which the kernel may evict, are in memory.
    """

    def __init__(self, tables: tuple[Table, ...] = (), count: int = 0) -> None:
        self._tables = tables
        self._count = count

    def __len__(self) -> int:
        return self._count

    def with_table(self, table: Table) -> UidTables:
        """Return these uids and those of one more file."""
        return UidTables((*self._tables, table), self._count + int(np.count_nonzero(table.offsets != LOST)))

    def find(self, uid: bytes) -> int | None:
        """Return the number of a game, or None."""
        return next(iter(self._between(uid, uid)), None)

    def starting_with(self, prefix: str) -> list[int]:
        """Return the numbers of the games whose uid begins with these hex digits, ascending."""
        low, high = (bytes.fromhex(prefix.ljust(32, digit)) for digit in "0f")
        return self._between(low, high)

    def _between(self, low: bytes, high: bytes) -> list[int]:
        first, last = (int.from_bytes(end[:8], "big") for end in (low, high))
        found = []
        for table in self._tables:
            begins = table.uids.view(">u8")[::2]  # uint64 [n]: the first half of each uid
            for place in np.flatnonzero((begins >= first) & (begins <= last)).tolist():
                uid = table.uids[place : place + 1].tobytes()  # of an element numpy would strip trailing zero bytes
                if low <= uid <= high and table.offsets[place] != LOST:
                    found.append(table.first_index + place)
        return found
