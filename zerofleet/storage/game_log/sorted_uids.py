"""Sorted uids of full files on disk, for the writer, which looks up every game it receives.

    00000003.uids    "ZFUIDS1\\0" first_index count index_crc32 crc32 | uids, sorted | place of each in the file, uint32

Memory holds one uid in `BLOCK` of each file; a look-up reads one block of each, through the kernel's page cache and not by a
mapping, whose pages would count as memory of this process. The files are derived from those of the index: one that is
missing, damaged or of another index is written again.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import Self

import numpy as np
import structlog

from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, open_plain, read_plain
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.game_log.format import LOST, UID_DTYPE, Table

__all__ = ["SUFFIX", "SortedFile", "SortedUids"]

SUFFIX = ".uids"
BLOCK = 256
"""Uids of a block, which is read at once: one page of the disk."""

ABSENT = 4096
"""Most uids that are kept as not found; the games of one delivery are fewer."""

_MAGIC = b"ZFUIDS1\0"
_HEAD = struct.Struct("<8sQQII")
_UID_BYTES = 16

log = structlog.get_logger(__name__)


class SortedFile:
    """Uids of one full file."""

    def __init__(self, first_index: int, count: int, content: bytes, descriptor: int | None) -> None:
        """Create it from the content of the file; without a descriptor the content stays in memory."""
        end = _HEAD.size + _UID_BYTES * count
        self._first_index = first_index
        self._count = count
        self._fences = [content[at : at + _UID_BYTES] for at in range(_HEAD.size, end, BLOCK * _UID_BYTES)]
        self._descriptor = descriptor
        self._content = content if descriptor is None else b""

    @classmethod
    def of(cls, path: Path, table: Table) -> Self:
        """Return the uids of a table, from `path` if it belongs to the table; otherwise it is written.

        While it cannot be written the uids stay in memory, and the next start tries again.
        """
        content, descriptor = b"", None
        try:
            content = _read(path)
            if not _belongs(content, table):
                content = _pack(table)
                crash_point("game_log_before_sorted_uids")
                atomic_publish(path, content)
                crash_point("game_log_after_sorted_uids")
            descriptor = open_plain(path, os.O_RDONLY)
        except OSError as error:
            content = content or _pack(table)
            log.warning("game_log.uids_not_stored", path=str(path), error=str(error), advice="they stay in memory")
        return cls(table.first_index, _count(content), content, descriptor)

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def find(self, uid: bytes) -> int | None:
        """Return the number of a game, or None. Raises `OSError` when the file cannot be read."""
        block = bisect_right(self._fences, uid) - 1
        if block < 0:
            return None
        uids = self._uids(block * BLOCK, (block + 1) * BLOCK)
        at = uids.find(uid)
        while at % _UID_BYTES and at >= 0:  # across two uids
            at = uids.find(uid, at + 1)
        return None if at < 0 else self._number(block * BLOCK + at // _UID_BYTES)

    def between(self, low: bytes, high: bytes) -> list[int]:
        """Return the numbers of the games with uids from `low` to `high`."""
        first = max(0, bisect_right(self._fences, low) - 1) * BLOCK
        uids = self._uids(first, bisect_right(self._fences, high) * BLOCK)
        found = range(0, len(uids), _UID_BYTES)
        return [self._number(first + at // _UID_BYTES) for at in found if low <= uids[at : at + _UID_BYTES] <= high]

    def _uids(self, first: int, end: int) -> bytes:
        count = max(0, min(end, self._count) - first)
        return self._read(_HEAD.size + _UID_BYTES * first, _UID_BYTES * count)

    def _number(self, place: int) -> int:
        at = _HEAD.size + _UID_BYTES * self._count + 4 * place
        return self._first_index + int.from_bytes(self._read(at, 4), "little")

    def _read(self, offset: int, size_bytes: int) -> bytes:
        if self._descriptor is None:
            return self._content[offset : offset + size_bytes]
        found = os.pread(self._descriptor, size_bytes, offset)
        if len(found) < size_bytes:
            raise OSError(
                f"the sorted uids of the file with game {self._first_index} were truncated; restart to write them again"
            )
        return found


class SortedUids:
    """Uids of all full files. Immutable, so that a reader in another thread finds each game in its old or new place.

    A new game is looked for twice, when it is checked and when it is appended; the second search reads no file.
    """

    def __init__(self, files: tuple[SortedFile, ...] = ()) -> None:
        self._files = files
        self._absent: set[bytes] = set()  # of the last searches; these files never get them

    def __len__(self) -> int:
        return sum(len(file) for file in self._files)

    def with_file(self, file: SortedFile) -> SortedUids:
        """Return these uids and those of one more file."""
        return SortedUids((*self._files, file))

    def find(self, uid: bytes) -> int | None:
        """Return the number of a game, or None. Raises `OSError` when a file cannot be read."""
        if uid in self._absent:
            return None
        for file in reversed(self._files):
            if (number := file.find(uid)) is not None:
                return number
        if len(self._absent) >= ABSENT:
            self._absent.clear()
        self._absent.add(uid)
        return None

    def starting_with(self, prefix: str) -> list[int]:
        """Return the numbers of the games whose uid begins with these hex digits, ascending."""
        low, high = (bytes.fromhex(prefix.ljust(32, digit)) for digit in "0f")
        return sorted(number for file in self._files for number in file.between(low, high))

    def close(self) -> None:
        """Close every file; idempotent."""
        for file in self._files:
            file.close()


def _pack(table: Table) -> bytes:
    kept = np.flatnonzero(np.asarray(table.offsets) != LOST)
    uids, first = np.unique(np.asarray(table.uids, dtype=UID_DTYPE)[kept], return_index=True)
    body = uids.tobytes() + kept[first].astype("<u4").tobytes()
    about = (table.first_index, len(uids), table.checksum)
    return _HEAD.pack(_MAGIC, *about, zlib.crc32(body, zlib.crc32(repr(about).encode()))) + body


def _read(path: Path) -> bytes:
    """Return the content of a file; empty if it is absent or not a regular file, which is then replaced."""
    try:
        return read_plain(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        if error.errno in NOT_A_STORED_FILE:
            return b""
        raise


def _belongs(content: bytes, table: Table) -> bool:
    if len(content) < _HEAD.size:
        return False
    magic, *about, crc = _HEAD.unpack_from(content)
    body = memoryview(content)[_HEAD.size :]
    wanted = (_MAGIC, table.first_index, table.checksum, len(body))
    if (magic, about[0], about[2], about[1] * (_UID_BYTES + 4)) != wanted:
        return False
    return bool(zlib.crc32(body, zlib.crc32(repr(tuple(about)).encode())) == crc)


def _count(content: bytes) -> int:
    return int(_HEAD.unpack_from(content)[2])
