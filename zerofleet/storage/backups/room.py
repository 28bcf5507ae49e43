"""Room for a backup on a full disk: what the removal of earlier ones of the run would free.

Backups share files as hard links, so the removal of one may free next to nothing. History is not given up where that would not
let the new backup succeed, for example on a disk that something else has filled.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from zerofleet.storage.backups.contents import read_contents
from zerofleet.storage.backups.order import files_of_run, versions_of_run

__all__ = ["can_make_room"]


def can_make_room(root: Path, newest: Path, older: Sequence[Path]) -> bool:
    """Return whether a backup of `root` may fit once `older` backups are removed and `newest` shares its files with it.

    Sizes alone are compared, so a file that changed without growing counts as shared. Raises `RunDirectoryError` as
    `read_contents`, and `OSError`.
    """
    return bool(older) and _needed(root, newest) <= shutil.disk_usage(newest).free + _freed(older)


def _needed(root: Path, newest: Path) -> int:
    """Return the size in bytes of the run's files that are not in a backup with the same size."""
    stored, total = read_contents(newest).files, 0
    for path in _files(root):
        with suppress(FileNotFoundError):  # the run is active
            size, known = path.stat().st_size, stored.get(path.relative_to(root).as_posix())
            total += size if known is None or known.size != size else 0
    return total


def _files(root: Path) -> Iterable[Path]:
    yield from files_of_run(root)
    for _, files in versions_of_run(root):
        yield from files


def _freed(backups: Iterable[Path]) -> int:
    """Return the size in bytes of the files that no other backup has."""
    found = [path.stat() for backup in backups for path in backup.rglob("*") if path.is_file()]
    links = Counter((one.st_dev, one.st_ino) for one in found)
    whole = {(one.st_dev, one.st_ino): one.st_size for one in found if links[one.st_dev, one.st_ino] == one.st_nlink}
    return sum(whole.values())
