"""Disk that can lose power: contents and names that were synced are kept, all others are lost."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any


class DurableDisk:
    """Durable state of the files below a directory, from the calls of `os.fsync` while `installed`.

    A sync of a file makes its content durable, a sync of a directory its names. `fault` is called before each sync with the
    path and may raise.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fault = lambda path: None
        self._contents: dict[int, bytes] = {}  # by inode
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}  # inode and kind by name, by the directory's inode
        self._places: dict[int, Path] = {}  # of synced directories

    def installed(self, monkeypatch: Any) -> DurableDisk:
        """Observe every sync of this process from now on; returns the disk."""
        monkeypatch.setattr(os, "fsync", self._sync)
        return self

    def _sync(self, file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        opened = Path(f"/proc/self/fd/{descriptor}")
        self.fault(opened.readlink())
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            found = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(opened)}
            self._names[status.st_ino], self._places[status.st_ino] = found, opened.readlink()
        else:
            self._contents[status.st_ino] = opened.read_bytes()

    def after_power_loss(self, target: Path) -> Path:
        """Write the durable files of `root` below `target`, an empty or missing directory; returns it.

        The directories above the synced ones count as durable.
        """
        target.mkdir(parents=True)
        synced = {inode: place for inode, place in self._places.items() if place.is_relative_to(self.root)}
        for inode, place in synced.items():
            if place.parent not in synced.values():
                self._restore(inode, target / place.relative_to(self.root))
        return target

    def _restore(self, directory: int, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        for name, (inode, is_directory) in self._names.get(directory, {}).items():
            if is_directory:
                self._restore(inode, place / name)
            else:
                (place / name).write_bytes(self._contents.get(inode, b""))
