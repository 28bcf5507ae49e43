"""Which games a log holds: uid to number, in 24 bytes a game.

A dictionary would take about 200 bytes a game, 2 GB for ten million. Only the games of the file being written stand in
one; those of full files stand in two sorted arrays.
"""

from __future__ import annotations

import numpy as np

from zerofleet.game_log.format import UID_DTYPE

__all__ = ["UidIndex"]


class UidIndex:
    """A growing map from uid (16 bytes) to the number of a game."""

    def __init__(self) -> None:
        # Keys S16 [n], sorted, and the number of each, int64 [n]; one object, so that a reader in another thread never
        # sees new keys with old numbers.
        self._sealed = (np.zeros(0, dtype=UID_DTYPE), np.zeros(0, dtype=np.int64))
        self._recent: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._sealed[0]) + len(self._recent)

    def add(self, uid: bytes, number: int) -> None:
        """Note one game."""
        self._recent[uid] = number

    def find(self, uid: bytes) -> int | None:
        """Return the number of a game, or None."""
        recent = self._recent.get(uid)
        if recent is not None:
            return recent
        keys, numbers = self._sealed
        at = int(np.searchsorted(keys, np.bytes_(uid)))
        # numpy drops zero bytes at the end of an element when it hands one out.
        if at < len(keys) and keys[at].ljust(16, b"\0") == uid:
            return int(numbers[at])
        return None

    def seal(self, uids: np.ndarray | None = None, numbers: np.ndarray | None = None) -> None:
        """Move the games added one by one to the sorted arrays, together with `uids` S16 [n] and `numbers` int64 [n]."""
        new_keys = np.array(list(self._recent), dtype=UID_DTYPE)
        new_numbers = np.array(list(self._recent.values()), dtype=np.int64)
        if uids is not None and numbers is not None:
            new_keys, new_numbers = np.concatenate([new_keys, uids]), np.concatenate([new_numbers, numbers])
        new_keys, first = np.unique(new_keys, return_index=True)
        keys, old_numbers = self._sealed
        at = np.searchsorted(keys, new_keys)
        self._sealed = np.insert(keys, at, new_keys), np.insert(old_numbers, at, new_numbers[first])
        self._recent = {}
