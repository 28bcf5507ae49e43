"""Runs that the application shows, by the name of their directory, with readers that stay open between requests.

A name from a request is looked up among the names of the folder; it never becomes part of a path.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from games.core import Game, make
from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Candidate, Rung
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import RunDirectoryError
from zerofleet.library.metrics import Metrics, read_metrics
from zerofleet.library.model_list import ModelList, list_models
from zerofleet.library.run_list import RunList, RunRow, list_runs, run_row, runs_in
from zerofleet.library.stored_games import GameList, find_game, list_games, read_game
from zerofleet.service.settings import open_run_store
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE
from zerofleet.storage.runs import RunHeader, RunPaths, read_header
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.ladders.standings import standings

__all__ = ["Catalogue", "Gate", "OpenRun", "UnknownRun"]

GAMES_KEPT = 32  # replayed games, for the boards of a replay


class UnknownRun(RunDirectoryError):
    """Name of no run of the folder."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Record of the gate of a run."""

    candidates: dict[int, Candidate]
    """By version, ascending."""
    ladder: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class _Signature:
    """Sizes and times of the files from which a row is made."""

    stamps: tuple[tuple[int, int], ...]


class OpenRun:
    """A run with its readers; methods block on the disk and are thread-safe."""

    def __init__(self, name: str, paths: RunPaths) -> None:
        self.name = name
        self.paths = paths
        self.header: RunHeader = read_header(paths.root)
        self.game: Game = make(self.header.game, **self.header.parameters)
        self.model = model_name(self.game)
        self._guard = threading.Lock()
        self._log: GameLog | None = None
        self._games: OrderedDict[str, tuple[int, ValidatedGame]] = OrderedDict()
        self._metrics: tuple[_Signature, Metrics] | None = None
        self._gate: tuple[_Signature, Gate] | None = None
        self._models: tuple[_Signature, ModelList] | None = None

    def metrics(self) -> Metrics:
        """Return the columns of the run's metrics, read again when a file has changed."""
        signature = _signature(self.paths.metrics / "trainer.jsonl", self.paths.metrics / "run.jsonl")
        with self._guard:
            if self._metrics is None or self._metrics[0] != signature:
                self._metrics = (signature, read_metrics(self.paths.metrics))
            return self._metrics[1]

    def champion(self) -> Champion | None:
        """Return the champion of the run."""
        return open_run_store(self.paths).champion(self.model)

    def history(self) -> list[Champion]:
        """Return every promotion, oldest first."""
        return open_run_store(self.paths).history(self.model, whole=True)

    def gate(self) -> Gate:
        """Return candidates and ratings from the gatekeeper's journal. Raises `RunDirectoryError` for a damaged one."""
        home = self.paths.models / self.model
        signature = _signature(self.paths.gatekeeper / JOURNAL_FILE, home / "champion_history.jsonl")
        with self._guard:
            if self._gate is None or self._gate[0] != signature:
                record = read_record(self.paths.gatekeeper, self.model, self.game)
                ladder = tuple(standings(record, open_run_store(self.paths).history(self.model)))
                self._gate = (signature, Gate(dict(sorted(record.candidates.items())), ladder))
            return self._gate[1]

    def models(self) -> ModelList:
        """Return a row for each version, read again when a version, the journal or the champion has changed."""
        home, gate = self.paths.models / self.model, self.gate()
        signature = _signature(home, home / "champion_history.jsonl", self.paths.gatekeeper / JOURNAL_FILE)
        with self._guard:
            if self._models is None or self._models[0] != signature:
                self._models = (signature, list_models(self.paths, self.model, gate.candidates, gate.ladder))
            return self._models[1]

    def games(self, *, limit: int, before: int | None) -> GameList:
        """Return stored games, newest first; see `list_games`. Raises `RunDirectoryError`, `RecordRejected`."""
        with self._guard:
            return list_games(self._opened(), limit=limit, before=before)

    def stored(self, uid: str) -> tuple[int, ValidatedGame]:
        """Return a stored game by its uid or a prefix, with its number. Raises `InvalidRequest`, `RecordRejected`."""
        with self._guard:
            if uid not in self._games:
                logged = find_game(self._opened(), uid)
                self._games[uid] = (logged.index, read_game(logged))
                while len(self._games) > GAMES_KEPT:
                    self._games.popitem(last=False)
            self._games.move_to_end(uid)
            return self._games[uid]

    def close(self) -> None:
        """Close the files."""
        with self._guard:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _opened(self) -> GameLog:
        if self._log is None:
            self._log = GameLog.open(self.paths.replay, writer=False)
        else:
            self._log.refresh()
        return self._log


class Catalogue:
    """Runs of a folder, or one run directory."""

    def __init__(self, runs: Path | None, run_dir: Path | None) -> None:
        """Create it; exactly one of the arguments is given."""
        self._runs = runs
        self._run_dir = run_dir
        self._guard = threading.Lock()
        self._open: dict[str, OpenRun] = {}
        self._rows: dict[str, tuple[_Signature, RunRow]] = {}

    def found(self) -> dict[str, RunPaths]:
        """Return the run directories by name."""
        if self._run_dir is not None:
            return {self._run_dir.resolve().name: RunPaths(self._run_dir)}
        return runs_in(self._runs) if self._runs is not None else {}

    def runs(self) -> RunList:
        """Return a row for each run; those of an unchanged stopped run are kept from the last call."""
        found, rows, fresh = self.found(), [], {}
        for name, paths in found.items():
            metrics = (paths.metrics / "trainer.jsonl", paths.metrics / "run.jsonl")
            signature = _signature(paths.header, *metrics, paths.services, paths.gatekeeper / JOURNAL_FILE)
            known = self._rows.get(name)
            if known is not None and known[0] == signature and not known[1].is_live:
                rows.append(known[1])
            else:
                fresh[name] = (signature, paths)
        listed = list_runs({name: paths for name, (_, paths) in fresh.items()})
        self._rows |= {row.name: (fresh[row.name][0], row) for row in listed.runs}
        every = sorted((*rows, *listed.runs), key=lambda row: row.created_at, reverse=True)
        return RunList(runs=tuple(every), faults=listed.faults)

    def row(self, name: str) -> RunRow:
        """Return the row of one run; raises `UnknownRun` and the errors of `run_row`."""
        return run_row(name, self.get(name).paths)

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


def _signature(*paths: Path) -> _Signature:
    stamps = []
    for path in paths:
        try:
            found = path.stat()
            stamps.append((found.st_mtime_ns, found.st_size))
        except OSError:
            stamps.append((0, 0))
    return _Signature(tuple(stamps))
