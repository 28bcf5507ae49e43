"""Backup of an active run.

Copies the files that a restored run needs, in an order without dangling references (`order`). Append-only files are copied
up to their current length, SQLite files by SQLite's backup API. Files that equal those of the run's previous backup are hard
links to them, where the file system has links (`earlier`). A backup becomes visible when it is complete and durable; a killed
one leaves a directory ending in `.tmp`, which the next one removes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic_core import to_json

from zerofleet.contracts.manifests import StoredFile
from zerofleet.contracts.model_checks import describe_file
from zerofleet.contracts.plain_files import open_plain
from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.storage.backups.contents import (
    CONTENTS_FILE,
    FILES,
    BackupContents,
    list_backups,
    read_contents,
    unfinished_backups,
)
from zerofleet.storage.backups.earlier import EarlierBackup
from zerofleet.storage.backups.order import CHECKPOINTS, files_of_run, versions_of_run
from zerofleet.storage.backups.room import can_make_room
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import (
    TEMPORARY_SUFFIX,
    atomic_publish,
    end_of_lines,
    make_directory,
    sync_directory,
    try_lock,
)

__all__ = ["copy_file", "save_backup", "sync_tree"]

log = structlog.get_logger(__name__)

_CHUNK_BYTES = 1 << 20
_LINES = {".jsonl", ".csv"}  # copied up to the last whole line


def save_backup(root: Path, directory: Path, *, keep: int = 0) -> Path:
    """Back up the run in `root` to a new directory in `directory` and return its path.

    Of the backups of `root` in `directory` this one and the newest others, `keep` in all, are kept, 0 for all, and each of
    another run. On a full disk, unless `keep` is 0, the oldest ones but never the newest are removed, one after another, until
    this one succeeds; none where that would not free enough.

    `root` may be part of a run, such as the trainer's volume. Raises `RunDirectoryError` when it holds no files of a run,
    `Unavailable` when another backup is in progress, the disk fails, or a file disappears during the copy: then nothing
    becomes visible, and the call may be repeated. It is also raised, with the path, when the backup is complete and an older
    one cannot be removed.
    """
    if not root.is_dir():
        raise RunDirectoryError(f"{root} is not a directory; name a run directory")
    if directory.resolve().is_relative_to(root.resolve()):
        raise RunDirectoryError(
            f"{directory} is inside {root}, so a backup would include earlier ones; name a directory outside"
        )
    try:
        make_directory(directory)
        with _alone(directory):
            backup = _take_making_room(root, directory) if keep else _take(root, directory)
            if keep:
                _prune(root, directory, backup, keep=keep)
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"the backup of {root} failed: {error}; nothing was kept, try again") from error
    return backup


def _prune(root: Path, directory: Path, backup: Path, *, keep: int) -> None:
    others = [one for one in _backups_of(root, directory) if one != backup]  # of a wrong clock some may be newer
    try:
        for old in others[::-1][keep - 1 :]:
            _remove(old)
    except OSError as error:
        raise Unavailable(
            f"the backup {backup} is complete, but an older one could not be removed: {error}; remove it by hand, or mend the "
            "cause: the next backup tries again"
        ) from error


def _backups_of(root: Path, directory: Path) -> list[Path]:
    """Return the backups of a run in a directory that may have those of several runs, oldest first."""
    found = []
    for backup in list_backups(directory):
        with suppress(RunDirectoryError):  # damaged, of an unknown run
            if read_contents(backup).source == str(root.resolve()):
                found.append(backup)
    return found


def _take_making_room(root: Path, directory: Path) -> Path:
    """Take a backup; on a full disk remove the oldest earlier one and try again while there are two and it may help."""
    removed: list[str] = []
    while True:
        try:
            return _take(root, directory)
        except (OSError, sqlite3.Error) as error:
            *older, newest = (_backups_of(root, directory) if _is_full_disk(error) else []) or [directory]
            if can_make_room(root, newest, older) and _remove(older[0]):
                removed.append(older[0].name)
                log.warning("backup.older_removed", removed=str(older[0]), error=str(error), left=len(older))
            elif removed:
                raise Unavailable(
                    f"the backup of {root} failed: {error}; removed from {directory} to make room: {', '.join(removed)}; "
                    "newer backups are kept: free space, or use a larger disk, then try again"
                ) from error
            else:
                raise


def _is_full_disk(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL


def _take(root: Path, directory: Path) -> Path:
    earlier = EarlierBackup(next(reversed(_backups_of(root, directory)), None))
    now = datetime.now(UTC)
    name = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}Z"
    staging = directory / f".{name}{TEMPORARY_SUFFIX}"
    staging.mkdir()
    try:
        files = _copy_run(root, staging / FILES, earlier)
        if not files:
            raise RunDirectoryError(f"{root} holds no files of a run; name a run directory or one composed of its parts")
        contents = BackupContents(int(now.timestamp() * 1000), str(root.resolve()), files)
        sync_tree(staging)
        atomic_publish(staging / CONTENTS_FILE, to_json(asdict(contents), indent=1) + b"\n")
        crash_point("backup_before_rename")
        staging.rename(directory / name)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    sync_directory(directory)
    return directory / name


def _copy_run(root: Path, target: Path, earlier: EarlierBackup) -> dict[str, StoredFile]:
    """Copy every file in order, or link it to the earlier backup's, and return the copied files."""
    copied: dict[str, StoredFile] = {}

    def copy(path: Path) -> None:
        name = path.relative_to(root).as_posix()
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copied[name] = _copy_one(name, path, target / name, earlier)
        crash_point("backup_after_file")

    for path in files_of_run(root):
        try:
            copy(path)
        except FileNotFoundError:
            # A closed games file may be dropped: of one that the checkpoint does not need, a restored run needs only the index.
            is_closed = path.suffix == ".games" and path.with_suffix(".index").relative_to(root).as_posix() in copied
            if not is_closed or any(name.startswith(CHECKPOINTS) for name in copied):
                raise
    for version, files in versions_of_run(root):
        try:
            for path in files:
                copy(path)
        except FileNotFoundError:
            if not version.name.isdecimal():
                raise
            # Pruned meanwhile, so no file copied earlier refers to it.
            for name in [name for name in copied if (root / name).is_relative_to(version)]:
                del copied[name]
            shutil.rmtree(target / version.relative_to(root), ignore_errors=True)
    return copied


def _copy_one(name: str, source: Path, target: Path, earlier: EarlierBackup) -> StoredFile:
    if source.suffix == ".db":  # the same bytes may be of an older state: its -wal file has later ones
        return _copy_database(source, target)
    return earlier.link(name, source, target) or copy_file(source, target, whole_lines=source.suffix in _LINES)


def _copy_database(source: Path, target: Path) -> StoredFile:
    address = f"{source.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
    except sqlite3.OperationalError as error:
        # Readers need the file -shm, which only a process with the database open, or one that may write beside it, provides.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or _beside(source, "-shm").is_file():
            raise
        target.unlink(missing_ok=True)
        _copy_closed_database(source, target)
    return describe_file(target)


def _copy_closed_database(source: Path, target: Path) -> None:
    """Copy a database that no process has open, with what a killed one has left in its -wal file."""
    copy_file(source, target)
    with suppress(FileNotFoundError):
        copy_file(_beside(source, "-wal"), _beside(target, "-wal"))
    if _beside(source, "-shm").is_file():
        raise OSError(f"{source} was opened by another process during its copy")
    with closing(sqlite3.connect(target)) as copy:  # the last one to close it deletes -wal and -shm
        copy.execute("pragma wal_checkpoint(truncate)")


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)


def copy_file(source: Path, target: Path, *, whole_lines: bool = False) -> StoredFile:
    """Copy a file up to its current length, or its last whole line; return hash and size of the copy."""
    digest = hashlib.sha256()
    with os.fdopen(open_plain(source), "rb") as original, target.open("xb") as copy:
        left = os.fstat(original.fileno()).st_size
        if whole_lines:
            left = end_of_lines(original.fileno(), left)
        while left > 0 and (chunk := original.read(min(_CHUNK_BYTES, left))):
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
        copy.flush()
        os.fsync(copy.fileno())
        return StoredFile(digest.hexdigest(), copy.tell())


def sync_tree(root: Path) -> None:
    """Make every name below `root` durable."""
    for folder, _, _ in os.walk(root):
        sync_directory(Path(folder))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Lock a directory of backups for writing, and remove unfinished backups of killed processes."""
    with os.fdopen(open_plain(directory / ".lock", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as lock:
        if not try_lock(lock):
            raise Unavailable(f"another backup is in progress in {directory}; wait for it to finish")
        for left in unfinished_backups(directory):
            shutil.rmtree(left)
        yield


def _remove(backup: Path) -> bool:
    """Remove a backup; return whether all its files are gone. The next backup removes those that are left."""
    doomed = backup.with_name(f".{backup.name}{TEMPORARY_SUFFIX}")
    backup.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    return not doomed.exists()
