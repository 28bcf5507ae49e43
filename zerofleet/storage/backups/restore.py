"""Puts a backup back into an empty place, whole or not at all.

Files are first copied beside their place and compared with their hashes; only when all are there and on disk do they take
their names. A restore that was killed is gone on with by the same command. Folders of the place may be mounted volumes:
each gets its own `.restore.tmp`, so files only ever move within one file system.
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
from zerofleet.storage.files import TEMPORARY_SUFFIX, atomic_publish, sync_directory

__all__ = ["restore_backup"]

STAGING = f".restore{TEMPORARY_SUFFIX}"
_COMPLETE = "complete"  # in the staging directory of the root: which backup lies ready there
_NOT_OURS = {STAGING, "lost+found"}


def restore_backup(backup: Path, root: Path, *, parts: Sequence[str] = ()) -> BackupContents:
    """Make `root` the run that was backed up, or just its folders `parts`; returns what was restored.

    `root`, or those folders, must be empty, or hold empty folders alone. Raises `RunDirectoryError` when they are not, or when
    a file of the backup is not what it was (then nothing has been put in place); `Unavailable` when the disk refuses.
    """
    contents = _choose(read_contents(backup), parts)
    mark = describe_file(backup / CONTENTS_FILE).sha256
    places = sorted({_place(name) for name in contents.files})
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not _lies_ready(root, mark):
            _require_empty(root, places, everything=not parts)
            _stage(backup, root, contents, places)
            atomic_publish(root / STAGING / _COMPLETE, f"{mark}\n")
            crash_point("restore_staged")
        _put_in_place(root, places)
    except OSError as error:
        raise Unavailable(f"restoring {backup} to {root} failed: {error}; the same command goes on with it") from error
    return contents


def _place(name: str) -> str:
    """Return the top-level folder a file belongs to, empty for one that lies in the root itself."""
    parts = PurePosixPath(name).parts
    return parts[0] if len(parts) > 1 else ""


def _lies_ready(root: Path, mark: str) -> bool:
    """Return whether this backup was staged completely by a restore that did not come to its end."""
    try:
        staged = (root / STAGING / _COMPLETE).read_text().strip()
    except FileNotFoundError:
        return False
    if staged != mark:
        raise RunDirectoryError(f"{root} is being restored from another backup; go on with that one, or empty the directory")
    return True


def _choose(contents: BackupContents, parts: Sequence[str]) -> BackupContents:
    """Return the list without what lies in other folders than `parts`, where they are named."""
    known = {_place(name) for name in contents.files}
    if unknown := set(parts) - known:
        raise RunDirectoryError(f"the backup has no part {', '.join(unknown)}; it has {', '.join(sorted(known - {''}))}")
    return replace(contents, files={name: file for name, file in contents.files.items() if not parts or _place(name) in parts})


def _require_empty(root: Path, places: Sequence[str], *, everything: bool) -> None:
    """Raise unless the root holds nothing but empty folders, and what an unfinished restore has left."""
    for entry in root.iterdir():
        if not everything and entry.name not in places:
            continue
        inside = [each for each in entry.iterdir() if each.name not in _NOT_OURS] if entry.is_dir() else [entry]
        if entry.name not in _NOT_OURS and inside:
            raise RunDirectoryError(f"{root} is not empty ({inside[0]} is there); restore into an empty directory")
    for folder in ("", *places):
        if (root / folder / STAGING).is_dir():
            shutil.rmtree(root / folder / STAGING)


def _stage(backup: Path, root: Path, contents: BackupContents, places: Iterable[str]) -> None:
    """Copy every file beside its place and compare it with its hash."""
    for folder in ("", *places):
        (root / folder / STAGING).mkdir(parents=True, exist_ok=True)
    for name, stored in contents.files.items():
        place = _place(name)
        target = root / place / STAGING / PurePosixPath(name).relative_to(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = backup / FILES / name
        if source.is_symlink() or not source.is_file():
            raise RunDirectoryError(f"{source} is missing or no plain file; this backup is damaged, take another")
        if copy_file(source, target) != stored:
            raise RunDirectoryError(f"{source} is not what was backed up (its sha256 differs); take another backup")
        crash_point("restore_after_file")
    for folder in ("", *places):
        sync_tree(root / folder / STAGING)
        sync_directory(root / folder)


def _put_in_place(root: Path, places: Iterable[str]) -> None:
    """Give what is staged its names; the root last, as its mark says that something is left to do."""
    for folder in [place for place in places if place] + [""]:
        staging = root / folder / STAGING
        for entry in sorted(staging.iterdir()) if staging.is_dir() else ():
            if folder or entry.name != _COMPLETE:
                os.replace(entry, root / folder / entry.name)  # noqa: PTH105 - over nothing
                crash_point("restore_moved")
        sync_directory(root / folder)
        if staging.is_dir():
            shutil.rmtree(staging)
    sync_directory(root)
