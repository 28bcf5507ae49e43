"""Runs that the application shows, by the name of their directory, each opened once.

A name from a request is looked up among the names of the folder; it never becomes part of a path. The readers of the runs that
were looked at last stay open.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Container, Mapping
from pathlib import Path

import games
from games.core import Game
from games.errors import GameError
from ui.kept_rows import KeptRows, Rows
from zerofleet.errors import RunDirectoryError, ZerofleetError
from zerofleet.library.run_files import OpenRun, signature_of
from zerofleet.library.run_list import RunFault, RunList, run_name, runs_in
from zerofleet.storage.gate_journal import JOURNAL_FILE
from zerofleet.storage.runs import RunHeader, RunPaths, read_header

__all__ = ["MOST_OPEN", "Catalogue", "OpenRun", "UnknownRun", "require_present"]

MOST_OPEN = 16


class UnknownRun(RunDirectoryError):
    """Name of no run of the folder."""


class Catalogue:
    """Runs of a folder, or one run directory."""

    def __init__(
        self, runs: Path | None, run_dir: Path | None, *, most_open: int = MOST_OPEN, cache: Path | None = None
    ) -> None:
        """Create it; exactly one of `runs` and `run_dir` is given. `cache`: directory for what was read, None for none."""
        self._runs = runs
        self._run_dir = run_dir
        self._most_open = most_open
        self._cache = cache
        self._guard = threading.Lock()
        self._open: OrderedDict[str, OpenRun] = OrderedDict()  # the least recently used first
        self._rows: Rows | None = None
        self._kept = KeptRows(cache, runs or run_dir or Path())

    def found(self) -> dict[str, RunPaths]:
        """Return the run directories by name."""
        if self._run_dir is not None:
            return {run_name(self._run_dir): RunPaths(self._run_dir)}
        return runs_in(self._runs) if self._runs is not None else {}

    def runs(self) -> RunList:
        """Return a row for each run; those of an unchanged stopped run are kept from the last call."""
        with self._guard:
            if self._rows is None:
                self._rows = self._kept.load()
            before = self._rows
        rows: Rows = {}
        faults, found = [], self.found()
        self._forget(found)
        for name, paths in found.items():
            metrics = (paths.metrics / "trainer.jsonl", paths.metrics / "run.jsonl")
            signature = signature_of(paths.header, *metrics, paths.services, paths.gatekeeper / JOURNAL_FILE)
            known = before.get(name)
            if known is not None and known[0] == signature and not known[1].is_alive:
                rows[name] = known
                continue
            try:
                rows[name] = (signature, self._present(name, paths).row())
            except (
                ZerofleetError,
                GameError,
                OSError,
                ValueError,
            ) as error:  # a game that is not installed, a store that is away
                faults.append(RunFault(name=name, fault=str(error)))
        with self._guard:
            self._rows = rows
            self._kept.save(rows)
        listed = sorted((row for _, row in rows.values()), key=lambda row: row.created_at, reverse=True)
        return RunList(runs=tuple(listed), unreadable=tuple(faults))

    def get(self, name: str) -> OpenRun:
        """Return a run by the name of its directory. Raises `UnknownRun`, `RunDirectoryError`, `GameError`."""
        with self._guard:
            known = self._open.get(name)
        if known is not None and known.signature == signature_of(known.paths.header):
            return self._present(name, known.paths)
        paths = self.found().get(name)
        if paths is None:
            raise UnknownRun(f"there is no run called {name!r} here")
        return self._present(name, paths)

    def game(self, run: str | None, name: str, parameters: Mapping[str, str]) -> Game:
        """Return the game of a run, else the one with this name and these parameters. Raises as `get`."""
        return games.make(name, **parameters) if run is None else self.get(run).game

    def header(self, name: str) -> RunHeader:
        """Return the header of a run, without opening it if its game is installed. Raises as `get`."""
        with self._guard:
            known = self._open.get(name)
        paths = known.paths if known is not None else self.found().get(name)
        if paths is None:
            raise UnknownRun(f"there is no run called {name!r} here")
        found = read_header(paths.root)
        return found if found.game in games.available() else self.get(name).header

    def close(self) -> None:
        """Close every run."""
        with self._guard:
            for run in self._open.values():
                run.close()
            self._open.clear()

    def _forget(self, found: Container[str]) -> None:
        """Close the runs whose directories are gone: their open files would keep the space on the disk."""
        with self._guard:
            for name in [name for name in self._open if name not in found]:
                self._open.pop(name).close()

    def _present(self, name: str, paths: RunPaths) -> OpenRun:
        """Return the open run of a directory, opened again after a change of its header. Raises as `get`."""
        with self._guard:
            known = self._open.get(name)
            if known is None or known.signature != signature_of(paths.header):
                if known is not None:
                    known.close()
                self._open[name] = known = OpenRun(name, paths, cache=self._cache)
            self._open.move_to_end(name)
            while len(self._open) > self._most_open:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
            return known


def require_present(run: OpenRun) -> None:
    """Raise `UnknownRun` where the directory of an open run is gone, or holds another run of the same name by now."""
    if signature_of(run.paths.header) != run.signature:
        raise UnknownRun(f"run.json of {run.name!r} has changed: the run was removed or made again")
