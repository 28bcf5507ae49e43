"""Game log as a sequence of files, with one writer and any number of readers."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Self

import structlog

from zerofleet.contracts.plain_files import open_plain
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import make_directory, sync_directory, try_lock
from zerofleet.storage.game_log.format import UID_DTYPE, LoggedGame, Table
from zerofleet.storage.game_log.segment import Segment
from zerofleet.storage.game_log.sorted_uids import SUFFIX, SortedFile, SortedUids
from zerofleet.storage.game_log.uids import UidIndex, UidTables

__all__ = ["SEGMENT_BYTES", "GameLog"]

SEGMENT_BYTES = 64 << 20
"""Size at which a file is closed: some 50,000 Connect Four games."""

BLOCK_BYTES = 1 << 20
"""Bytes of one read of `GameLog.block`."""

log = structlog.get_logger(__name__)


class GameLog:
    """Accepted games in order of arrival, numbered from 0. Open with `GameLog.open` and close after use.

    One thread appends; other threads may read through the same object concurrently. Damaged entries are skipped by `scan`
    and rejected by `get`.
    """

    def __init__(self, directory: Path, *, lock: int | None, segment_bytes: int) -> None:
        self._directory = directory
        self._lock = lock  # descriptor of the writer's lock; None for a reader
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        # Uids of the last file and of full ones; replaced as one object, for readers in other threads.
        self._known: tuple[UidIndex, UidTables | SortedUids] = (UidIndex(), SortedUids() if lock is not None else UidTables())
        self._guard = threading.Lock()
        self._undeleted: Path | None = None  # file whose failed deletion was logged
        self._stranded: set[Path] = set()  # files on disk before a dropped one

    # -- opening and closing ---------------------------------------------------------------------------------------

    @classmethod
    def open(cls, directory: Path, *, writer: bool, segment_bytes: int = SEGMENT_BYTES) -> Self:
        """Open the log in `directory`; a writer creates it if absent and truncates a torn end.

        Raises `RunDirectoryError` when another process is the writer, when the log is foreign or of another version, when a
        file in the middle is missing with its index, or when a reader finds no log. Where the index is there the log begins
        after that file.
        """
        if writer:
            make_directory(directory)
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
        """Close every file and release the writer's lock; idempotent."""
        for segment in self._segments:
            segment.close()
        self._segments = []
        if isinstance(self._known[1], SortedUids):
            self._known[1].close()
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
        for path in paths:
            self._open_next(path, is_last=path == paths[-1])
        self._known[0].seal()

    def _open_next(self, path: Path, *, is_last: bool) -> None:
        """Open the next file, which may be dropped unless it is the last, and take in its games or their table."""
        table = None if is_last and path.exists() else Table.load(path.with_suffix(".index"))
        if table is not None and table.first_index != self._expected_index(path, otherwise=table.first_index):
            table = None  # its checksum leaves out the upper half of this number; the table is written again
        self._open_segment(path, table)
        if table is not None:
            self._know_full(path, table, self._known[0])

    def _know_full(self, path: Path, table: Table, growing: UidIndex) -> None:
        """Add the uids of a full file to those that are looked up, beside `growing`."""
        full = self._known[1]
        if isinstance(full, SortedUids):
            full = full.with_file(SortedFile.of(path.with_suffix(SUFFIX), table))
        else:
            full = full.with_table(table)
        self._known = (growing, full)

    def _open_segment(self, path: Path, table: Table | None) -> None:
        """Open the next file and index its games."""
        segment = Segment.open(path, self.end_index, writable=self._lock is not None, table=table)
        expected = self._expected_index(path, otherwise=segment.first_index)
        if segment.first_index != expected:
            segment.close()
            raise RunDirectoryError(
                f"{path} begins with game {segment.first_index}, want {expected}: an earlier file is missing, or its header is "
                "damaged; restore it from a backup"
            )
        self._segments.append(segment)
        self._take_in(segment)
        if segment.descriptor is None:
            self._begin_after_hole()

    def _begin_after_hole(self) -> None:
        """Close the files before one that is gone, so that the games from `start_index` on have no gap.

        Files are deleted from the first on, but a backup taken meanwhile, or a reader that opens one after another, may find an
        earlier one. A writer deletes it once its games may be dropped, not at once: the missing file may yet be restored.
        """
        for earlier in islice(reversed(self._segments), 1, None):
            if earlier.descriptor is None:
                return
            if self._lock is not None:
                log.warning("game_log.hole", missing=str(self._segments[-1].path), unused=str(earlier.path))
            earlier.close()
            self._stranded.add(earlier.path)

    def _expected_index(self, path: Path, *, otherwise: int) -> int:
        """Return the number of the first game of the next file; `otherwise` where the files before it are missing."""
        return self.end_index if self._segments or int(path.stem) == 0 else otherwise

    def _take_in(self, segment: Segment) -> None:
        for uid, number in segment.read_tail():
            self._known[0].add(uid, number)

    def _repair(self) -> None:
        """Truncate a torn end, and complete the switch between two files if a crash interrupted it.

        The process before may have been killed between the creation of a file and the sync of its name.
        """
        sync_directory(self._directory)
        for segment in self._segments[:-1]:
            if not segment.full:
                rest = UidIndex()
                for uid, number in self._segments[-1].present() if not self._segments[-1].full else []:
                    rest.add(uid, number)
                self._know_full(segment.path, segment.seal(), rest)
        if self._segments and not self._segments[-1].full and (cut_bytes := self._segments[-1].repair()):
            log.warning("game_log.torn_end", path=str(self._segments[-1].path), cut_bytes=cut_bytes)

    def refresh(self) -> int:
        """Index games that the writer has added since, and close files that it has dropped; return the number of new games.

        For readers.
        """
        with self._guard:
            before, paths = len(self), self._paths()
            for path in paths[len(self._segments) :]:
                # A next file exists, so the one before it is full.
                if self._segments:
                    self._take_in(self._segments[-1])
                self._release_last()
                self._open_next(path, is_last=path == paths[-1])
            if self._segments:
                self._take_in(self._segments[-1])
            self._release_dropped()
            return len(self) - before

    def _release_dropped(self) -> None:
        """Close the files that the writer has deleted: an open one still takes its space on the disk."""
        for segment in self._segments[:-1]:
            if segment.descriptor is not None:
                if segment.path.exists():
                    return
                segment.close()

    def _release_last(self) -> None:
        """Replace what a reader has in memory about the last file, which is full now, by the table that the writer stored."""
        if self._segments and not self._segments[-1].full and len(self._known[0]) == self._segments[-1].games:
            table = Table.load(self._segments[-1].path.with_suffix(".index"))
            if table is not None and self._segments[-1].adopt(table):
                self._know_full(self._segments[-1].path, table, UidIndex())

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """Store games, (uid, payload) each, in order; return the number of new ones. Duplicate uids are skipped.

        The games are durable on return. Raises `OSError` (disk full): then none is stored. After a failed sync the state of
        the disk is unknown and every further append raises `RunDirectoryError`: close and reopen.
        """
        with self._guard:
            self._require_writer()
            fresh = {uid: payload for uid, payload in entries if uid not in self}
            if fresh:
                segment = self._segment_for_writing()
                number = segment.next_index
                segment.append([(bytes.fromhex(uid), payload) for uid, payload in fresh.items()])
                for place, uid in enumerate(fresh):
                    self._known[0].add(bytes.fromhex(uid), number + place)
            return len(fresh)

    def _segment_for_writing(self) -> Segment:
        """Return the last file, or a new one if that is full."""
        number = 0
        if self._segments:
            last = self._segments[-1]
            if not last.full and last.end < self._segment_bytes:
                return last
            if not last.full:
                self._know_full(last.path, last.seal(), UidIndex())
            number = int(last.path.stem) + 1
            crash_point("game_log_between_files")
        self._segments.append(Segment.create(self._directory / f"{number:08}.games", self.end_index))
        return self._segments[-1]

    def drop_before(self, index: int) -> int:
        """Delete full files whose games are all below `index`; return the first number still readable.

        Their uids are kept, so a late duplicate of a dropped game is still recognised. A file that cannot be deleted is logged,
        once, and stays with all later ones until the next call.
        """
        with self._guard:
            self._require_writer()
            for segment, following in pairwise(self._segments):
                is_on_disk = segment.descriptor is not None or segment.path in self._stranded
                if following.first_index <= index and is_on_disk:
                    if not self._delete(segment.path):
                        break  # the games that stay have no gap
                    segment.close()
                    self._stranded.discard(segment.path)
        return self.start_index

    def _delete(self, path: Path) -> bool:
        """Delete a file, which may be gone; return whether that succeeded."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            if path != self._undeleted:
                log.error("game_log.not_deleted", path=str(path), error=str(error), advice="the deletion is tried again")
            self._undeleted = path
            return False
        return True

    def _require_writer(self) -> None:
        if self._lock is None:
            raise ValueError(f"the game log in {self._directory} is closed or open for reading only")

    # -- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of games ever stored, including dropped, excluding damaged ones."""
        growing, full = self._known
        return len(growing) + len(full)

    def __contains__(self, uid: str) -> bool:
        return self.find_index(uid) is not None

    @property
    def start_index(self) -> int:
        """Number of the first game that was not dropped."""
        return next((part.first_index for part in self._segments if part.descriptor is not None), self.end_index)

    @property
    def end_index(self) -> int:
        """Number of the next game."""
        return self._segments[-1].next_index if self._segments else 0

    @property
    def damaged(self) -> int:
        """Number of games lost to disk damage."""
        return self.end_index - (self._segments[0].first_index if self._segments else 0) - len(self)

    def find_index(self, uid: str) -> int | None:
        """Return the number of a game, or None. Raises `ValueError` when `uid` is not 32 hex digits."""
        raw = bytes.fromhex(uid)
        if len(raw) != UID_DTYPE.itemsize:
            raise ValueError(f"{uid!r} is not a uid; want 32 hex digits")
        growing, full = self._known
        found = growing.find(raw)
        return full.find(raw) if found is None else found

    def find(self, uid: str) -> LoggedGame | None:
        """Return the game with this uid, or None; raises as `find_index` and `get`."""
        index = self.find_index(uid)
        return None if index is None else self.get(index)

    def starting_with(self, prefix: str) -> list[int]:
        """Return the numbers of the games whose uid begins with these hex digits, ascending, dropped ones included."""
        growing, full = self._known
        return sorted([*full.starting_with(prefix), *growing.starting_with(prefix)])

    def get(self, index: int) -> LoggedGame:
        """Return a game by number.

        Raises `IndexError` if it does not exist (yet, or any more), `RecordRejected("checksum")` if it is damaged.
        """
        if not self.start_index <= index < self.end_index:
            raise IndexError(f"game {index} is not in the log, which holds {self.start_index} to {self.end_index - 1}")
        return self._segments[bisect_right(self._segments, index, key=lambda part: part.first_index) - 1].get(index)

    def block(self, before: int, *, most: int, size_bytes: int = BLOCK_BYTES) -> tuple[int, list[LoggedGame]]:
        """Return whole games with numbers below `before`, newest first, by one read; see `Segment.block`.

        The first value is that of the next call's `before`; no more games are kept below `start_index`. Raises `IndexError`
        when no game below `before` is kept.
        """
        before = min(before, self.end_index)
        if before <= self.start_index:
            raise IndexError(f"there is no game below {before} in the log, which begins with {self.start_index}")
        segment = self._segments[bisect_right(self._segments, before - 1, key=lambda part: part.first_index) - 1]
        return segment.block(before, most=most, size_bytes=size_bytes)

    def scan(self, start_index: int = 0) -> Iterator[LoggedGame]:
        """Yield the games from `start_index` on, in order, including those appended meanwhile."""
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
    """Return an open descriptor with the writer's lock; the kernel releases it when the process ends."""
    descriptor = open_plain(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    if not try_lock(descriptor):
        os.close(descriptor)
        raise RunDirectoryError(f"{directory} is being written by another process; stop it first, or read only")
    return descriptor
