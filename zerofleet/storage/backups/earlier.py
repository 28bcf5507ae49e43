"""Earlier backup of a run, whose unchanged files a new one shares as hard links.

A shared file takes space once, so a backup needs space for what has changed: most bytes of a run are in closed games files and
model versions, which never change. Nothing is trusted for that: the run's file and the earlier backup's are both read and
hashed, so neither a file changed in place nor damage in the earlier backup enters the new one. It saves space and writes, not
reads.

A backup remains complete when another one is removed. Damage of a shared file on the disk concerns all that share it.
"""

from __future__ import annotations

import os
from pathlib import Path

from zerofleet.contracts.manifests import StoredFile
from zerofleet.contracts.model_checks import describe_file
from zerofleet.storage.backups.contents import FILES, read_contents

__all__ = ["EarlierBackup"]


class EarlierBackup:
    """Files of a complete backup, or none without one."""

    def __init__(self, backup: Path | None) -> None:
        """Read the list of the backup; raises `RunDirectoryError` as `read_contents`."""
        self._folder = Path() if backup is None else backup / FILES
        self._files = {} if backup is None else read_contents(backup).files

    def link(self, name: str, source: Path, target: Path) -> StoredFile | None:
        """Create `target` as a link to the backup's file `name` if that and `source` are equal; return its hash and size.

        None: it has to be copied. Raises `OSError` when `source` cannot be read.
        """
        stored, found = self._files.get(name), self._folder / name
        if stored is None or source.stat().st_size != stored.size or describe_file(source) != stored:
            return None
        try:
            if found.is_symlink() or describe_file(found) != stored:
                return None
        except OSError:
            return None
        try:
            os.link(found, target)
        except OSError:  # a file system without links, or one that refuses them for files of another owner
            self._files = {}
            return None
        return stored
