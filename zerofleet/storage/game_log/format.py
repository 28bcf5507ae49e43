"""Format of a game log: files of entries with checksums, and an index written beside each full file.

    00000003.games   "ZFGAMES1" first_index | entry | entry | ...
    entry            "\\xf5ZGe" length index uid crc32 | payload          little-endian, crc over all but itself and the magic
    00000003.index   "ZFINDEX1" first_index count crc32 | offsets | uids
    00000003.uids    see `sorted_uids`

A crash can only tear the end of the last file: an entry counts once it is whole. Damage further inside (a bad disk) differs
from a torn end by the whole entries behind it: each entry has its own number, so the lost ones are known.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, read_plain
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.files import atomic_publish

__all__ = ["LOST", "Entry", "LoggedGame", "Table", "pack_entry", "pack_header", "read_header", "unpack_entry", "walk"]

HEADER = struct.Struct("<8sQ")
ENTRY = struct.Struct("<4sIQ16sI")
INDEX = struct.Struct("<8sQQI")
SEGMENT_MAGIC = b"ZFGAMES1"
INDEX_MAGIC = b"ZFINDEX1"
ENTRY_MAGIC = b"\xf5ZGe"
UID_DTYPE = np.dtype("S16")
LOST = 0
"""Offset that marks an entry lost to a bad disk; no entry starts there."""


@dataclass(frozen=True, slots=True)
class LoggedGame:
    """Game as stored in the log."""

    index: int  # 0 for the first game of the log
    uid: str
    payload: bytes


class Entry(NamedTuple):
    """Location of an entry in its file."""

    number: int
    uid: bytes  # 16
    offset: int
    end: int


def pack_header(first_index: int) -> bytes:
    """Return the header of a file whose first entry is `first_index`."""
    return HEADER.pack(SEGMENT_MAGIC, first_index)


def read_header(path: Path, data: bytes) -> int:
    """Return the first index of a file; raises `RunDirectoryError` when it is foreign or of another version."""
    magic, first_index = HEADER.unpack_from(data)
    if magic == SEGMENT_MAGIC:
        return int(first_index)
    if magic[:7] == SEGMENT_MAGIC[:7]:
        raise RunDirectoryError(f"{path} is of version {magic[7:]!r}, this program reads {SEGMENT_MAGIC[7:]!r}")
    raise RunDirectoryError(f"{path} is not a game log: it begins with {magic!r}, want {SEGMENT_MAGIC!r}")


def pack_entry(index: int, uid: bytes, payload: bytes) -> bytes:
    """Return the bytes of an entry; `uid` has 16 bytes."""
    return ENTRY.pack(ENTRY_MAGIC, len(payload), index, uid, _checksum(index, uid, payload)) + payload


def _checksum(index: int, uid: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack("<IQ16s", len(payload), index, uid)))


def unpack_entry(path: Path, index: int, data: bytes) -> LoggedGame:
    """Return the game in the bytes of entry `index`; raises `RecordRejected("checksum")` if they are damaged."""
    if len(data) >= ENTRY.size:
        magic, length, stored, uid, crc = ENTRY.unpack_from(data)
        payload = data[ENTRY.size : ENTRY.size + length]
        whole = magic == ENTRY_MAGIC and stored == index and len(payload) == length
        if whole and _checksum(index, uid, payload) == crc:
            return LoggedGame(index, uid.hex(), payload)
    raise RecordRejected("checksum", f"{path}: game {index} was damaged on disk; it is skipped")


def walk(data: bytes, *, offset: int, next_index: int) -> Iterator[Entry]:
    """Yield the whole entries of `data` from `offset` on, in order, skipping damage between them.

    `next_index` is the lowest valid number of the next entry. Bytes after the last entry yielded are a torn end or an entry
    being written.
    """
    damage = offset
    while offset >= 0:
        numbers = range(next_index, next_index + (offset - damage) // ENTRY.size + 1)  # no more fit in the skipped bytes
        entry = _whole_entry(data, offset, numbers)
        if entry is None:
            offset = data.find(ENTRY_MAGIC, offset + 1)
            continue
        yield entry
        offset = damage = entry.end
        next_index = entry.number + 1


def _whole_entry(data: bytes, offset: int, numbers: range) -> Entry | None:
    if offset + ENTRY.size > len(data):
        return None
    magic, length, index, uid, crc = ENTRY.unpack_from(data, offset)
    end = offset + ENTRY.size + length
    if magic != ENTRY_MAGIC or index not in numbers or end > len(data):
        return None
    if _checksum(index, uid, data[offset + ENTRY.size : end]) != crc:
        return None
    return Entry(index, uid, offset, end)


@dataclass(frozen=True, slots=True)
class Table:
    """Index of a full file: n entries, lost ones included."""

    first_index: int
    offsets: np.ndarray  # uint64 [n]; LOST for lost entries
    uids: np.ndarray  # S16 [n]; zeros for lost entries
    checksum: int  # of offsets and uids

    @classmethod
    def of(cls, first_index: int, offsets: np.ndarray, uids: np.ndarray) -> Table:
        """Return the table of these entries."""
        body = offsets.tobytes() + uids.tobytes()
        return cls(first_index, offsets, uids, zlib.crc32(body, first_index & 0xFFFFFFFF))

    def save(self, path: Path) -> None:
        """Publish the table as `path`."""
        head = INDEX.pack(INDEX_MAGIC, self.first_index, len(self.offsets), self.checksum)
        atomic_publish(path, head + self.offsets.tobytes() + self.uids.tobytes())

    @classmethod
    def load(cls, path: Path) -> Table | None:
        """Return the table stored at `path`, None if it is absent or damaged."""
        try:
            data = read_plain(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in NOT_A_STORED_FILE:
                return None
            raise
        if len(data) < INDEX.size:
            return None
        magic, first_index, count, crc = INDEX.unpack_from(data)
        body = data[INDEX.size :]
        if magic != INDEX_MAGIC or len(body) != count * 24 or zlib.crc32(body, first_index & 0xFFFFFFFF) != crc:
            return None
        if not count:
            return cls(int(first_index), np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=UID_DTYPE), crc)
        # Memory-mapped: the kernel may evict the pages. One mapping for both, as each holds a descriptor of its own.
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        offsets = np.frombuffer(mapped, dtype=np.uint64, count=count, offset=INDEX.size)
        uids = np.frombuffer(mapped, dtype=UID_DTYPE, count=count, offset=INDEX.size + 8 * count)
        return cls(int(first_index), offsets, uids, crc)
