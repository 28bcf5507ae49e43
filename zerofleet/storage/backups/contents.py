"""Contents of a backup: the files of a run and, written last, their list.

<backups>/20261121T131440123Z/backup.json    every file with size and sha256; written when all others are on disk
<backups>/20261121T131440123Z/files/...      the files under their names in the run directory
<backups>/.20261121T131440123Z.tmp/          unfinished backup, in progress or left by a killed process; never read
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from zerofleet.contracts.manifests import StoredFile, parse
from zerofleet.contracts.model_checks import describe_file
from zerofleet.contracts.plain_files import read_plain
from zerofleet.errors import CorruptModel, RunDirectoryError, VersionSkew
from zerofleet.storage.files import TEMPORARY_SUFFIX

__all__ = [
    "CONTENTS_FILE",
    "FILES",
    "SCHEMA",
    "BackupContents",
    "list_backups",
    "read_contents",
    "unfinished_backups",
    "verify_backup",
]

SCHEMA = 1
CONTENTS_FILE = "backup.json"
FILES = "files"
_NAME = re.compile(r"\d{8}T\d{9}Z")
_UNFINISHED = re.compile(rf"\.{_NAME.pattern}{re.escape(TEMPORARY_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class BackupContents:
    """List of the files of a backup."""

    created_at_ms: int
    """Start of the backup, in milliseconds since 1970."""
    source: str
    """Run directory that was backed up."""
    files: dict[str, StoredFile]
    """Files by path in the run directory, with slashes."""
    schema: int = SCHEMA

    @property
    def size_bytes(self) -> int:
        """Total size of all files."""
        return sum(file.size for file in self.files.values())


def list_backups(directory: Path) -> list[Path]:
    """Return the complete backups in `directory`, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name) and (path / CONTENTS_FILE).is_file())


def unfinished_backups(directory: Path) -> list[Path]:
    """Return the unfinished backups in `directory`; its other temporary files belong to other programs."""
    return [path for path in directory.iterdir() if _UNFINISHED.fullmatch(path.name)]


def read_contents(backup: Path) -> BackupContents:
    """Read the list of a backup. Raises `RunDirectoryError` if it is missing, damaged or names files outside a run."""
    path = backup / CONTENTS_FILE
    try:
        contents = parse(BackupContents, read_plain(path), where=str(path), schemas=[SCHEMA])
    except OSError as error:
        if known := list_backups(backup):
            raise RunDirectoryError(f"{backup} is a folder of backups; name one of them, the newest is {known[-1]}") from error
        why = error.strerror if backup.is_dir() else "there is no such folder"
        raise RunDirectoryError(f"{backup} is not a complete backup ({why}); name one that has a {CONTENTS_FILE}") from error
    except (CorruptModel, VersionSkew) as error:
        raise RunDirectoryError(f"{error}; take another backup") from error
    for name in contents.files:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise RunDirectoryError(f"{path} names {name!r}, which is not a file of a run; it was not written by Zerofleet")
    return contents


def verify_backup(backup: Path) -> BackupContents:
    """Compare every file of a backup with its hash; raises `RunDirectoryError` naming the first that differs."""
    contents = read_contents(backup)
    for name, stored in contents.files.items():
        path = backup / FILES / name
        try:
            found = describe_file(path)
        except OSError as error:
            raise RunDirectoryError(f"{path} cannot be read: {error}; take another backup") from error
        if found != stored:
            raise RunDirectoryError(f"{path} has changed since the backup (its sha256 differs); take another backup")
    return contents
