"""Runs that the application shows, by the name of their directory, each opened once.

A name from a request is looked up among the names of the folder; it never becomes part of a path.
"""

from __future__ import annotations

import threading
from pathlib import Path

from zerofleet.errors import RunDirectoryError
from zerofleet.library.run_files import OpenRun, Signature, signature_of
from zerofleet.library.run_list import RunList, RunRow, list_runs, run_name, run_row, runs_in
from zerofleet.storage.gate_journal import JOURNAL_FILE
from zerofleet.storage.runs import RunPaths, read_header
from zerofleet.supervisor.overview import overview

__all__ = ["Catalogue", "OpenRun", "UnknownRun"]


class UnknownRun(RunDirectoryError):
    """Name of no run of the folder."""


class Catalogue:
    """Runs of a folder, or one run directory."""

    def __init__(self, runs: Path | None, run_dir: Path | None) -> None:
        """Create it; exactly one of the arguments is given."""
        self._runs = runs
        self._run_dir = run_dir
        self._guard = threading.Lock()
        self._open: dict[str, OpenRun] = {}
        self._rows: dict[str, tuple[Signature, RunRow]] = {}

    def found(self) -> dict[str, RunPaths]:
        """Return the run directories by name."""
        if self._run_dir is not None:
            return {run_name(self._run_dir): RunPaths(self._run_dir)}
        return runs_in(self._runs) if self._runs is not None else {}

    def runs(self) -> RunList:
        """Return a row for each run; those of an unchanged stopped run are kept from the last call."""
        found, rows, fresh = self.found(), [], {}
        for name, paths in found.items():
            metrics = (paths.metrics / "trainer.jsonl", paths.metrics / "run.jsonl")
            signature = signature_of(paths.header, *metrics, paths.services, paths.gatekeeper / JOURNAL_FILE)
            known = self._rows.get(name)
            if known is not None and known[0] == signature and not known[1].is_alive:
                rows.append(known[1])
            else:
                fresh[name] = (signature, paths)
        listed = list_runs({name: paths for name, (_, paths) in fresh.items()})
        self._rows |= {row.name: (fresh[row.name][0], row) for row in listed.runs}
        every = sorted((*rows, *listed.runs), key=lambda row: row.created_at, reverse=True)
        return RunList(runs=tuple(every), unreadable=listed.unreadable)

    def row(self, name: str) -> RunRow:
        """Return the row of one run; raises `UnknownRun` and the errors of `run_row`."""
        return run_row(name, overview(self.get(name).paths.root))

    def get(self, name: str) -> OpenRun:
        """Return a run by the name of its directory. Raises `UnknownRun`, `RunDirectoryError`, `GameError`."""
        paths = self.found().get(name)
        if paths is None:
            raise UnknownRun(f"there is no run called {name!r} here")
        with self._guard:
            known = self._open.get(name)
            if known is None or known.header != read_header(paths.root):
                if known is not None:
                    known.close()
                self._open[name] = known = OpenRun(name, paths)
            return known

    def close(self) -> None:
        """Close every run."""
        with self._guard:
            for run in self._open.values():
                run.close()
            self._open.clear()
