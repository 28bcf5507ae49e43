"""The log as a whole: one writer, any number of readers, files that follow each other."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import structlog

from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import sync_directory, try_lock
from zerofleet.storage.game_log.format import LOST, UID_DTYPE, LoggedGame, Table
from zerofleet.storage.game_log.segment import Segment
from zerofleet.storage.game_log.uids import UidIndex

__all__ = ["SEGMENT_BYTES", "GameLog"]

SEGMENT_BYTES = 64 << 20
"""A file that has reached this size is closed: some 50,000 Connect Four games."""

log = structlog.get_logger(__name__)


class GameLog:
    """Accepted games in the order of their arrival, numbered from 0. Open with `GameLog.open`; close it when done.

    One thread appends; other threads may read through the same object meanwhile. An entry that the disk damaged is
    passed over by `scan` and refused by `get`.
    """

    def __init__(self, directory: Path, *, lock: int | None, segment_bytes: int) -> None:
        self._directory = directory
        self._lock = lock  # descriptor that holds the writer's lock; None for a reader
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._uids = UidIndex()
        self._guard = threading.Lock()

    # -- opening and closing ---------------------------------------------------------------------------------------

    @classmethod
    def open(cls, directory: Path, *, writer: bool, segment_bytes: int = SEGMENT_BYTES) -> Self:
        """Open the log in `directory`; a writer makes it if need be, and cuts off what a crash left half-written.

        Raises `RunDirectoryError` when another process writes it, when it is foreign or of another version, when a file
        in the middle is gone, or when there is none to read.
        """
        if writer:
            directory.mkdir(parents=True, exist_ok=True)
        elif not directory.is_dir():
            raise RunDirectoryError(f"no games are stored in {directory}: there is no such directory")
        found = cls(directory, lock=_take_lock(directory) if writer else None, segment_bytes=segment_bytes)
        try:
            found._load()
            if writer:
                found._repair()
        except BaseException:
            found.close()
            raise
        return found

    def close(self) -> None:
        """Close every file; a writer gives up its lock. Closing twice is harmless."""
        for segment in self._segments:
            segment.close()
        self._segments = []
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _paths(self) -> list[Path]:
        """Return the path of every file of the log, dropped ones included, in order."""
        names = {path.stem for suffix in ("games", "index") for path in self._directory.glob(f"*.{suffix}")}
        return [self._directory / f"{name}.games" for name in sorted(names) if name.isdecimal()]

    def _load(self) -> None:
        paths = self._paths()
        uids, numbers = [np.zeros(0, dtype=UID_DTYPE)], [np.zeros(0, dtype=np.int64)]
        for path in paths:
            growing = path == paths[-1] and path.exists()
            table = None if growing else Table.load(path.with_suffix(".index"))
            segment = self._open_segment(path, table)
            if table is not None:
                kept = np.flatnonzero(table.offsets != LOST)
                uids.append(table.uids[kept])
                numbers.append(kept + segment.first_index)
        self._uids.seal(np.concatenate(uids), np.concatenate(numbers))

    def _open_segment(self, path: Path, table: Table | None = None) -> Segment:
        """Open the next file and take in its games."""
        expected = self.end_index
        segment = Segment.open(path, expected, writable=self._lock is not None, table=table)
        if self._segments and segment.first_index != expected:
            segment.close()
            raise RunDirectoryError(f"{path} begins with game {segment.first_index}, want {expected}: a file before it is gone")
        self._segments.append(segment)
        self._take_in(segment)
        return segment

    def _take_in(self, segment: Segment) -> int:
        found = segment.read_tail()
        for uid, number in found:
            self._uids.add(uid, number)
        return len(found)

    def _repair(self) -> None:
        """Cut a torn end off, and finish what a crash between two files left undone."""
        for segment in self._segments[:-1]:
            if not segment.full:
                segment.seal()
        if self._segments and not self._segments[-1].full and (cut_bytes := self._segments[-1].repair()):
            log.warning("game_log.torn_end", path=str(self._segments[-1].path), cut_bytes=cut_bytes)

    def refresh(self) -> int:
        """Take in what the writer has added since; return how many games are new. For readers."""
        with self._guard:
            new = self._take_in(self._segments[-1]) if self._segments else 0
            for path in self._paths()[len(self._segments) :]:
                # A next file exists, so the one before it is full; its last games may have come since the look above.
                new += self._take_in(self._segments[-1]) if self._segments else 0
                new += len(self._open_segment(path).offsets)
            return new

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """Store games, (uid, payload) each, in order; return how many were new. A uid that is there already is passed over.

        When this returns they are on disk. Raises `OSError` (disk full): then none of them is stored. After a failed
        sync the state of the disk is unknown and every further append raises `RunDirectoryError`: close and open again.
        """
        with self._guard:
            self._require_writer()
            fresh = {uid: payload for uid, payload in entries if uid not in self}
            if fresh:
                segment = self._segment_for_writing()
                number = segment.next_index
                segment.append([(bytes.fromhex(uid), payload) for uid, payload in fresh.items()])
                for place, uid in enumerate(fresh):
                    self._uids.add(bytes.fromhex(uid), number + place)
            return len(fresh)

    def _segment_for_writing(self) -> Segment:
        """Return the last file, or a new one when that is full."""
        number = 0
        if self._segments:
            last = self._segments[-1]
            if not last.full and last.end < self._segment_bytes:
                return last
            if not last.full:
                last.seal()
                self._uids.seal()
            number = int(last.path.stem) + 1
            crash_point("game_log_between_files")
        self._segments.append(Segment.create(self._directory / f"{number:08}.games", self.end_index))
        return self._segments[-1]

    def drop_before(self, index: int) -> int:
        """Delete full files whose games all have numbers below `index`; return the first number still readable.

        Their uids stay known, so a late duplicate of a dropped game is still recognised.
        """
        with self._guard:
            self._require_writer()
            for segment, following in zip(self._segments, self._segments[1:], strict=False):
                if following.first_index <= index and segment.descriptor is not None:
                    segment.path.unlink()
                    segment.close()
            sync_directory(self._directory)
        return self.start_index

    def _require_writer(self) -> None:
        if self._lock is None:
            raise ValueError(f"the game log in {self._directory} is closed or open for reading only")

    # -- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Games ever stored, dropped ones included, damaged ones not."""
        return len(self._uids)

    def __contains__(self, uid: str) -> bool:
        return self.find_index(uid) is not None

    @property
    def start_index(self) -> int:
        """Number of the first game that was not dropped."""
        return next((part.first_index for part in self._segments if part.descriptor is not None), self.end_index)

    @property
    def end_index(self) -> int:
        """Number the next game will have."""
        return self._segments[-1].next_index if self._segments else 0

    @property
    def damaged(self) -> int:
        """Games that are known to be lost to the disk."""
        return self.end_index - (self._segments[0].first_index if self._segments else 0) - len(self)

    def find_index(self, uid: str) -> int | None:
        """Return the number of a game, or None. Raises `ValueError` when `uid` is not 32 hex digits."""
        raw = bytes.fromhex(uid)
        if len(raw) != UID_DTYPE.itemsize:
            raise ValueError(f"{uid!r} is not a uid; want 32 hex digits")
        return self._uids.find(raw)

    def find(self, uid: str) -> LoggedGame | None:
        """Return the game with that uid, or None; raises as `find_index` and `get` do."""
        index = self.find_index(uid)
        return None if index is None else self.get(index)

    def get(self, index: int) -> LoggedGame:
        """Return a game by number.

        Raises `IndexError` when there is none (yet, or any more), `RecordRejected("checksum")` when it is damaged.
        """
        if not self.start_index <= index < self.end_index:
            raise IndexError(f"game {index} is not in the log, which holds {self.start_index} to {self.end_index - 1}")
        return self._segments[bisect_right(self._segments, index, key=lambda part: part.first_index) - 1].get(index)

    def scan(self, start_index: int = 0) -> Iterator[LoggedGame]:
        """Yield the games from number `start_index` on, in order, to the end as it is when the end is reached."""
        index = max(start_index, self.start_index)
        while index < self.end_index:
            try:
                yield self.get(index)
            except RecordRejected as error:
                log.warning("game_log.damaged_game", index=index, error=str(error))
            index += 1

    def uids(self) -> Iterator[str]:
        """Yield the uid of every readable game, in order."""
        return (logged.uid for logged in self.scan())


def _take_lock(directory: Path) -> int:
    """Return an open descriptor that holds the writer's lock; the kernel frees it when the process ends, however it ends."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    if not try_lock(descriptor):
        os.close(descriptor)
        raise RunDirectoryError(f"{directory} is being written by another process; stop it first, or read only")
    return descriptor
