"""Disk of the simulated machine: real files below one folder, whose durability is modelled.

What a process writes, every other process sees at once, and it survives a kill. Of a power loss only this survives: the
content of a file at its last fsync, and the names of a directory at its last fsync; what was written since is kept or lost as
drawn. A process can be killed or suspended before and after each fsync, rename and replacement, and within an append to the
game log; each of these can fail as on a full disk. `os.fsync` itself costs nothing here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sim_loop import Process, SimLoop


class SimDisk:
    """Files below `root`."""

    def __init__(self, root: Path, loop: SimLoop, rng: random.Random) -> None:
        self.root, self._loop, self._rng = root, loop, rng
        self.aside = root.with_name(f"{root.name}.lost")
        self.aside.mkdir()
        self.error_rate = 0.0
        self.countdown = -1
        """Effects until the running job stops; negative: it does not."""
        self.stops: Callable[[Process], None] = lambda process: None
        """Called when a job stops: marks its process as dead or suspended."""
        self.replaced: Callable[[Process, Path], None] = lambda process, path: None
        self.synced: Callable[[Process, Path, bytes], None] = lambda process, path, content: None
        self.refused: Callable[[Process, Path], None] = lambda process, path: None
        self._contents: dict[int, bytes] = {}  # by inode
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}  # inode and kind by name, by the directory's inode
        self._places: dict[int, Path] = {}  # of synced directories
        self._locks: dict[int, tuple[Process, Path]] = {}  # by descriptor
        self._real = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "pwrite")}
        self._flock = fcntl.flock
        self._losses = 0

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Return the replacements of functions by module and name."""
        names = {"fsync": self._fsync, "replace": self._replace, "rename": self._rename, "pwrite": self._pwrite}
        return {**{(os, name): function for name, function in names.items()}, (fcntl, "flock"): self._take_lock}

    # -- effects ---------------------------------------------------------------------------------------------------

    def _effect(self, path: Path) -> None:
        """Stop the running job here if that is planned."""
        if self.countdown < 0 or self._loop.job_thread is None:
            return
        if self.countdown:
            self.countdown -= 1
            return
        self.countdown = -1
        self.stops(self._loop.current)
        self._loop.job_thread.stop_here()

    def _fail(self, path: Path) -> None:
        if self.error_rate and self._loop.current is not self._loop.root and self._rng.random() < self.error_rate:
            raise OSError(errno.ENOSPC, "No space left on device (simulated)", str(path))

    def _is_here(self, path: Path) -> bool:
        return str(path).startswith(f"{self.root}/") or path == self.root

    def _fsync(self, file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        opened = Path(f"/proc/self/fd/{descriptor}")
        path = opened.readlink()
        if not self._is_here(path):
            return
        self._effect(path)
        self._fail(path)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(opened)}
            self._places[status.st_ino] = path
        else:
            content = self._contents[status.st_ino] = opened.read_bytes()
            self.synced(self._loop.current, opened.readlink(), content)  # another process may have replaced the file meanwhile
        self._effect(path)

    def _replace(self, source: Any, target: Any, **options: Any) -> None:
        path = Path(target)
        self._effect(path)
        self._fail(path)
        self._real["replace"](source, target, **options)
        self.replaced(self._loop.current, path)
        self._effect(path)

    def _rename(self, source: Any, target: Any, **options: Any) -> None:
        path = Path(target)
        self._effect(path)
        self._fail(path)
        self._real["rename"](source, target, **options)
        self._effect(path)

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not self._is_here(path):
            return int(self._real["pwrite"](descriptor, data, offset))
        self._fail(path)
        part = len(data)
        if len(data) > 1 and (self.countdown == 0 or self._rng.random() < 0.05):
            part = self._rng.randrange(1, len(data))  # a short write, or one that a crash cuts
        written = self._real["pwrite"](descriptor, data[:part], offset)
        self._effect(path)
        return int(written)

    # -- locks -----------------------------------------------------------------------------------------------------

    def _take_lock(self, file: Any, operation: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        try:
            self._flock(file, operation | fcntl.LOCK_NB)  # a lock that is waited for would stop the simulation
        except BlockingIOError:
            if operation & fcntl.LOCK_NB:
                self.refused(self._loop.current, path)
                raise
            raise AssertionError(f"{self._loop.current} waits for {path}, which another simulated process holds") from None
        self._locks[descriptor] = (self._loop.current, path)

    def held(self, process: Process) -> set[str]:
        """Return the names of the locks of a process."""
        return {path.name for descriptor, (owner, path) in self._live_locks() if owner is process}

    def release_locks(self, process: Process, *, name: str = "") -> None:
        """Release the locks of a dead process, or take one by name from a live one."""
        for descriptor, (owner, path) in self._live_locks():
            if owner is process and (not name or path.name == name):
                self._flock(descriptor, fcntl.LOCK_UN)
                del self._locks[descriptor]

    def _live_locks(self) -> list[tuple[int, tuple[Process, Path]]]:
        for descriptor, (_, path) in list(self._locks.items()):
            try:
                same = Path(f"/proc/self/fd/{descriptor}").readlink() == path
            except OSError:
                same = False
            if not same:
                del self._locks[descriptor]
        return list(self._locks.items())

    # -- power loss ------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Leave what is durable, and of the rest what is drawn. All processes must be dead."""
        self._losses += 1
        lost = self.aside / str(self._losses)
        worst = self._rng.random() < 0.5
        present = {entry.stat().st_ino: entry for entry in self.root.rglob("*")}
        synced = {place for inode, place in self._places.items() if inode in present}
        self._real["rename"](self.root, lost)
        present = {inode: lost / path.relative_to(self.root) for inode, path in present.items()}
        self.root.mkdir()
        for inode, place in sorted(self._places.items()):
            if inode in present and self._is_here(place) and place.parent not in synced:
                self._restore(inode, place, present, worst=worst)
        self._locks.clear()
        self._contents, self._names, self._places = {}, {}, {}
        for path in [self.root, *sorted(self.root.rglob("*"))]:
            inode = path.stat().st_ino
            if path.is_dir():
                self._names[inode] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
                self._places[inode] = path
            else:
                self._contents[inode] = path.read_bytes()

    def _restore(self, directory: int, place: Path, present: dict[int, Path], *, worst: bool) -> None:
        place.mkdir(parents=True, exist_ok=True)
        names = self._names.get(directory, {})
        if not worst and directory in present and self._rng.random() < 0.5:
            names = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(present[directory])}
        for name, (inode, is_directory) in sorted(names.items()):
            if is_directory:
                self._restore(inode, place / name, present, worst=worst)
                continue
            content = self._contents.get(inode, b"")
            if not worst and inode in present and self._rng.random() < 0.5:
                content = present[inode].read_bytes()
            (place / name).write_bytes(content)
