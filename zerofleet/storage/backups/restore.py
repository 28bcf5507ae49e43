"""Atomic restore of a backup into an empty directory.

Files are first copied to a staging directory and verified; they are renamed into place only when all are durable. The same
command resumes a killed restore. Folders of the target may be mounted volumes: each has its own `.restore.tmp`, so files
are only renamed within one file system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from zerofleet.contracts.model_checks import describe_file
from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.storage.backups.contents import CONTENTS_FILE, FILES, BackupContents, read_contents
from zerofleet.storage.backups.save import copy_file, sync_tree
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.files import TEMPORARY_SUFFIX, atomic_publish, make_directory, sync_directory

__all__ = ["restore_backup"]

STAGING = f".restore{TEMPORARY_SUFFIX}"
_COMPLETE = "complete"  # in the staging directory of the root: identifies the backup and the parts that are fully staged
_FINISHED = f".restored{TEMPORARY_SUFFIX}"  # the mark in the root, while the last staging directory is removed
_NOT_OURS = {STAGING, _FINISHED, "lost+found"}


def restore_backup(backup: Path, root: Path, *, parts: Sequence[str] = ()) -> BackupContents:
    """Restore a backup to `root`, or only its folders `parts`; return the restored contents.

    `root`, or those folders, must be empty or hold only empty folders. Raises `RunDirectoryError` when they are not, or when
    a file of the backup has changed (then nothing is put in place); `Unavailable` on a disk error.
    """
    contents = _choose(read_contents(backup), parts)
    mark = " ".join([describe_file(backup / CONTENTS_FILE).sha256, *sorted(set(parts))])
    places = sorted({_place(name) for name in contents.files})
    try:
        make_directory(root)
        if _is_finished(root, mark, contents):
            _clear(root)
            return contents
        if not _lies_ready(root, mark):
            _require_empty(root, places, everything=not parts)
            _stage(backup, root, contents, places)
            atomic_publish(root / STAGING / _COMPLETE, f"{mark}\n")
            crash_point("restore_staged")
        _put_in_place(root, places)
    except OSError as error:
        raise Unavailable(f"restoring {backup} to {root} failed: {error}; run the same command again to resume") from error
    return contents


def _place(name: str) -> str:
    """Return the top-level folder of a file, empty for one in the root itself."""
    parts = PurePosixPath(name).parts
    return parts[0] if len(parts) > 1 else ""


def _is_finished(root: Path, mark: str, contents: BackupContents) -> bool:
    """Return whether a restore of this backup was killed when every file had its place."""
    try:
        restored = (root / _FINISHED).read_text().strip()
    except FileNotFoundError:
        return False
    return restored == mark and all((root / name).is_file() for name in contents.files)  # not deleted since


def _lies_ready(root: Path, mark: str) -> bool:
    """Return whether an interrupted restore has staged this backup completely."""
    try:
        staged = (root / STAGING / _COMPLETE).read_text().strip()
    except FileNotFoundError:
        return False
    if staged != mark:
        raise RunDirectoryError(
            f"{root} is being restored from another backup, or with other parts of this one; resume with the same command, or "
            "empty the directory"
        )
    return True


def _choose(contents: BackupContents, parts: Sequence[str]) -> BackupContents:
    """Return the contents restricted to the folders `parts`, if any are named."""
    known = {_place(name) for name in contents.files} - {""}  # files in the root itself are no part: the root has others
    if unknown := sorted(set(parts) - known):
        named = ", ".join(part or "with an empty name" for part in unknown)
        raise RunDirectoryError(f"the backup has no part {named}; it has {', '.join(sorted(known))}")
    return replace(contents, files={name: file for name, file in contents.files.items() if not parts or _place(name) in parts})


def _require_empty(root: Path, places: Sequence[str], *, everything: bool) -> None:
    """Raise unless the root holds only empty folders; remove the remains of an unfinished restore."""
    for entry in root.iterdir():
        if not everything and entry.name not in places:
            continue
        inside = [each for each in entry.iterdir() if each.name not in _NOT_OURS] if entry.is_dir() else [entry]
        if entry.name not in _NOT_OURS and inside:
            raise RunDirectoryError(f"{root} is not empty (it has {inside[0]}); restore into an empty directory")
    for folder in ("", *places):
        if (root / folder / STAGING).is_dir():
            shutil.rmtree(root / folder / STAGING)
    (root / _FINISHED).unlink(missing_ok=True)  # of another restore


def _stage(backup: Path, root: Path, contents: BackupContents, places: Iterable[str]) -> None:
    """Copy every file to staging and verify its hash."""
    for folder in ("", *places):
        (root / folder / STAGING).mkdir(parents=True, exist_ok=True)
    for name, stored in contents.files.items():
        place = _place(name)
        target = root / place / STAGING / PurePosixPath(name).relative_to(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = backup / FILES / name
        if source.is_symlink() or not source.is_file():
            raise RunDirectoryError(f"{source} is missing or not a regular file; this backup is damaged, use another")
        if copy_file(source, target) != stored:
            raise RunDirectoryError(f"{source} has changed since the backup (its sha256 differs); use another backup")
        crash_point("restore_after_file")
    for folder in ("", *places):
        sync_tree(root / folder / STAGING)
        sync_directory(root / folder)


def _put_in_place(root: Path, places: Iterable[str]) -> None:
    """Move the staged files into place; the root last, as its mark shows that the restore is incomplete."""
    for folder in [place for place in places if place] + [""]:
        staging = root / folder / STAGING
        for entry in sorted(staging.iterdir()) if staging.is_dir() else ():
            if folder or entry.name != _COMPLETE:
                os.replace(entry, root / folder / entry.name)  # noqa: PTH105 - replaces nothing
                crash_point("restore_moved")
        sync_directory(root / folder)
        if not folder:
            (staging / _COMPLETE).replace(root / _FINISHED)
            crash_point("restore_finished")
        if staging.is_dir():
            shutil.rmtree(staging)
    crash_point("restore_staging_removed")
    _clear(root)


def _clear(root: Path) -> None:
    """Remove the last traces of a finished restore."""
    if (root / STAGING).is_dir():
        shutil.rmtree(root / STAGING)
    (root / _FINISHED).unlink()
    sync_directory(root)
