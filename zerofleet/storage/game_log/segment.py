"""Open file of a game log: offsets of its entries, reads and durable appends."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import structlog

from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, open_plain
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import sync_directory
from zerofleet.storage.game_log import format as layout
from zerofleet.storage.game_log.format import LOST, LoggedGame, Table

__all__ = ["Segment"]

log = structlog.get_logger(__name__)


class Segment:
    """File of a game log. A full file has a stored table; the last file grows.

    `offsets` and `uids` hold one element per entry, counted from `first_index`; a lost entry is `LOST` and zeros. For a
    growing file they take 24 bytes per game.
    """

    def __init__(self, path: Path, first_index: int, descriptor: int | None, table: Table | None) -> None:
        self.path = path
        self.first_index = first_index
        self.descriptor = descriptor  # None if the file was dropped and only its table is left
        self.end = layout.HEADER.size  # size of the known whole entries, in a growing file
        self.broken = False
        self.full = table is not None
        self.offsets: np.ndarray | array[int] = array("Q") if table is None else table.offsets
        self.uids: np.ndarray | bytearray = bytearray() if table is None else table.uids

    @classmethod
    def create(cls, path: Path, first_index: int) -> Segment:
        """Create a new, empty file, durably; on `OSError` there is none, and the next attempt may succeed."""
        file = path.open("xb")
        try:
            with file:
                file.write(layout.pack_header(first_index))
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)
            return cls(path, first_index, os.open(path, os.O_RDWR), None)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    @classmethod
    def open(cls, path: Path, expected_index: int, *, writable: bool, table: Table | None) -> Segment:
        """Open a file with its entries from `table`, or later from `read_tail`.

        `expected_index` replaces an incomplete header, and the number of the first entry a header that differs from it: both
        were written as the same number, and only entries have a checksum. Raises `RunDirectoryError` when the file is foreign,
        or missing without a table.
        """
        try:
            descriptor = open_plain(path, os.O_RDWR if writable else os.O_RDONLY)
        except FileNotFoundError:
            if table is None:
                raise RunDirectoryError(f"{path} is missing or its index is damaged; its games cannot be identified") from None
            return cls(path, table.first_index, None, table)
        except OSError as error:
            if error.errno in NOT_A_STORED_FILE:
                raise RunDirectoryError(f"{path} cannot be opened ({error.strerror}); restore it from a backup") from error
            raise
        header = os.pread(descriptor, layout.HEADER.size, 0)
        try:
            first_index = layout.read_header(path, header) if len(header) == layout.HEADER.size else expected_index
            if table is not None:
                first_index = table.first_index
            elif (numbered := _first_number(path, descriptor)) is not None and numbered != first_index:
                log.warning("game_log.damaged_header", path=str(path), found=first_index, first_game=numbered)
                first_index = numbered
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, first_index, descriptor, table)

    def close(self) -> None:
        """Close the file; idempotent."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    @property
    def next_index(self) -> int:
        """Number of the game after the last one in this file."""
        return self.first_index + len(self.offsets)

    @property
    def games(self) -> int:
        """Number of games in this file, without lost ones."""
        return len(self.offsets) - int(np.count_nonzero(np.asarray(self.offsets) == LOST))

    def adopt(self, table: Table) -> bool:
        """Replace what was read of this file, which is full now, by its stored table; return whether the table fits."""
        if table.first_index != self.first_index or len(table.offsets) != len(self.offsets):
            return False
        self.offsets, self.uids, self.full = table.offsets, table.uids, True
        return True

    def read_tail(self) -> list[tuple[bytes, int]]:
        """Index whole entries not seen yet; return (uid, number) of each."""
        if self.full or self.descriptor is None:
            return []
        data, base = _read_from(self.descriptor, self.end), self.end
        found = []
        for entry in layout.walk(data, offset=0, next_index=self.next_index):
            self._note(entry.number, entry.uid, base + entry.offset)
            self.end = base + entry.end
            found.append((entry.uid, entry.number))
        return found

    def _note(self, number: int, uid: bytes, offset: int) -> None:
        assert isinstance(self.offsets, array) and isinstance(self.uids, bytearray)  # noqa: PT018, S101  (only these grow)
        lost = number - self.next_index
        self.uids += bytes(layout.UID_DTYPE.itemsize * lost) + uid
        self.offsets.extend([LOST] * lost + [offset])

    def append(self, games: Sequence[tuple[bytes, bytes]]) -> None:
        """Append games, (uid, payload) each, durably; on `OSError` none is stored."""
        blobs = [layout.pack_entry(self.next_index + i, uid, payload) for i, (uid, payload) in enumerate(games)]
        self._write(b"".join(blobs))
        for (uid, _), blob in zip(games, blobs, strict=True):
            offset = self.end
            self.end += len(blob)
            self._note(self.next_index, uid, offset)

    def _write(self, blob: bytes) -> None:
        assert self.descriptor is not None  # noqa: S101  (the last file is never dropped)
        if self.broken:
            raise RunDirectoryError(f"an earlier write to {self.path} failed midway; close and reopen the log")
        written = 0
        try:
            while written < len(blob):
                written += os.pwrite(self.descriptor, blob[written:], self.end + written)
        except OSError:
            self.broken = True
            os.ftruncate(self.descriptor, self.end)
            self.broken = False
            raise
        crash_point("game_log_after_write_before_sync")
        self.broken = True  # after a failed sync, the next may report success although the data are lost
        try:
            os.fsync(self.descriptor)
        except OSError:  # the games were not stored: no later start may find them in memory, and acknowledge them
            os.ftruncate(self.descriptor, self.end)
            raise
        self.broken = False
        crash_point("game_log_after_sync")

    def seal(self) -> Table:
        """Store the table of a full file and memory-map it; return the table, in memory."""
        uids = np.frombuffer(bytes(self.uids), dtype=layout.UID_DTYPE)
        table = Table.of(self.first_index, np.array(self.offsets, dtype=np.uint64), uids)
        path = self.path.with_suffix(".index")
        table.save(path)
        stored = Table.load(path) or table
        self.offsets, self.uids, self.full = stored.offsets, stored.uids, True
        return table

    def present(self) -> list[tuple[bytes, int]]:
        """Return (uid, number) of each game of a growing file, without lost ones."""
        uids, size = bytes(self.uids), layout.UID_DTYPE.itemsize
        return [
            (uids[place * size : (place + 1) * size], self.first_index + place)
            for place, offset in enumerate(self.offsets)
            if offset != LOST
        ]

    def repair(self) -> int:
        """Truncate after the last whole entry and complete a torn or damaged header; return the number of bytes cut."""
        assert self.descriptor is not None  # noqa: S101  (the last file is never dropped)
        size = os.fstat(self.descriptor).st_size
        header = layout.pack_header(self.first_index)
        if os.pread(self.descriptor, layout.HEADER.size, 0) != header:
            os.pwrite(self.descriptor, header, 0)
        os.ftruncate(self.descriptor, self.end)
        os.fsync(self.descriptor)
        return max(size - self.end, 0)

    def get(self, number: int) -> LoggedGame:
        """Return a game of this file; raises `RecordRejected("checksum")` if it is damaged."""
        assert self.descriptor is not None  # noqa: S101  (the log refuses numbers of dropped files)
        place = number - self.first_index
        offset = int(self.offsets[place])
        if offset == LOST:
            raise RecordRejected("checksum", f"{self.path}: game {number} was damaged on disk; it is skipped")
        return layout.unpack_entry(self.path, number, os.pread(self.descriptor, self._end(place, offset) - offset, offset))

    def block(self, below: int, *, most: int, size_bytes: int) -> tuple[int, list[LoggedGame]]:
        """Return whole games of this file with numbers below `below`, newest first, by one read.

        The first value is the number of the oldest entry looked at: damaged ones between it and `below` are left out. At most
        `most` entries are looked at, and about `size_bytes` are read, of a longer game all.
        """
        assert self.descriptor is not None  # noqa: S101  (as in `get`)
        offsets = self.offsets
        first = max(below - most, self.first_index)
        listed = offsets[first - self.first_index : below - self.first_index].tolist()
        known = [(number, offset) for number, offset in enumerate(listed, first) if offset != LOST]
        if not known:
            return first, []
        end = self._end(known[-1][0] - self.first_index, known[-1][1])
        left_out = min(bisect_left(known, end - size_bytes, key=lambda entry: entry[1]), len(known) - 1)
        if left_out:
            known = known[left_out:]
            first = known[0][0]
        base = known[0][1]
        data = os.pread(self.descriptor, end - base, base)
        games, end = [], end - base
        for number, offset in reversed(known):
            with suppress(RecordRejected):
                games.append(layout.unpack_entry(self.path, number, data[offset - base : end]))
            end = offset - base
        return first, games

    def _end(self, place: int, offset: int) -> int:
        """Return where the entry at `place` of this file, which begins at `offset`, ends."""
        assert self.descriptor is not None  # noqa: S101  (as in `get`)
        following = int(self.offsets[place + 1]) if place + 1 < len(self.offsets) else LOST
        if following != LOST:
            return following
        head = os.pread(self.descriptor, layout.ENTRY.size, offset)
        length = layout.ENTRY.unpack(head)[1] if len(head) == layout.ENTRY.size else 0
        return min(offset + layout.ENTRY.size + length, os.fstat(self.descriptor).st_size)


def _first_number(path: Path, descriptor: int) -> int | None:
    """Return the number in the first entry of a file; None if that entry is absent, torn or damaged."""
    head = os.pread(descriptor, layout.ENTRY.size, layout.HEADER.size)
    if len(head) < layout.ENTRY.size:
        return None
    _, length, number, _, _ = layout.ENTRY.unpack(head)
    if layout.HEADER.size + layout.ENTRY.size + length > os.fstat(descriptor).st_size:
        return None
    try:
        entry = os.pread(descriptor, layout.ENTRY.size + length, layout.HEADER.size)
        return layout.unpack_entry(path, number, entry).index
    except RecordRejected:
        return None


def _read_from(descriptor: int, offset: int) -> bytes:
    """Return the bytes of a file from `offset` to its current end."""
    parts = []
    while chunk := os.pread(descriptor, 1 << 24, offset):
        parts.append(chunk)
        offset += len(chunk)
    return b"".join(parts)
