"""Readers of a run's files that stay open between requests: metrics, gate, models, matches and stored games.

Nothing here needs a service: every value is that of the files, while the run goes on and after it has ended. What was read is
kept until its files change.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from games.core import Game, State, make
from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Rung
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import CorruptModel, ModelNotFound, RecordRejected, RunDirectoryError
from zerofleet.library.accuracy_record import MeasuredAccuracy, accuracy_file, read_accuracy
from zerofleet.library.accuracy_series import with_accuracy
from zerofleet.library.game_query import GameQuery
from zerofleet.library.game_search import GameSearch
from zerofleet.library.ladder_list import Ladder, ladder_of
from zerofleet.library.match_games import PlayedGame, match_position, played_game
from zerofleet.library.match_list import (
    MatchDetail,
    MatchList,
    MatchReader,
    StoredMatch,
    find_matches,
    match_detail,
    stored_match_of,
)
from zerofleet.library.metrics import Metrics, MetricsReader, read_metrics
from zerofleet.library.model_list import (
    ALL_MODELS,
    ModelDetail,
    ModelList,
    ModelQuery,
    list_models,
    model_detail,
    stored_entries,
)
from zerofleet.library.overview import CANDIDATES_SHOWN, EVENTS_SHOWN, Event, Overview, describe, recorded_readings
from zerofleet.library.run_list import RunRow, RunStatus, run_row
from zerofleet.library.seat_results import SeatSample, with_seats
from zerofleet.library.series import RunSeries, began_s, run_series
from zerofleet.library.stored_games import (
    FinishedGame,
    FinishedGames,
    GameList,
    find_game,
    finished_game,
    list_games,
    newest,
    read_game,
)
from zerofleet.library.times import time_of
from zerofleet.service.settings import open_run_store
from zerofleet.storage.game_log import GameLog, LoggedGame
from zerofleet.storage.gate_journal import JOURNAL_FILE
from zerofleet.storage.runs import RunHeader, RunPaths, read_header
from zerofleet.strength.ladders.standings import standings
from zerofleet.supervisor.overview import latest_numbers, overview
from zerofleet.supervisor.readings import Match, Readings

__all__ = ["Gate", "OpenRun", "Signature", "signature_of"]

EVERY = 1 << 62
NO_FILE = (0, 0, 0, 0)
GAMES_KEPT = 64  # replayed games, for the boards of a replay and of several browsers that watch


@dataclass(frozen=True, slots=True)
class Gate:
    """Record of the gate of a run."""

    candidates: dict[int, Candidate]
    """By version, ascending."""
    rungs: tuple[Rung, ...]
    ladder: Ladder
    matches: MatchList


@dataclass(frozen=True, slots=True)
class Signature:
    """Identities, times and sizes of the files from which a value is made."""

    stamps: tuple[tuple[int, int, int, int], ...]


class OpenRun:
    """A run with its readers; methods block on the disk and are thread-safe."""

    def __init__(self, name: str, paths: RunPaths, *, cache: Path | None = None) -> None:
        """Open the run called `name`; `cache`: directory of snapshots of journals, None for none.

        Raises `RunDirectoryError`, `GameError`.
        """
        self.name = name
        self.paths = paths
        self.signature = signature_of(paths.header)
        self.header: RunHeader = read_header(paths.root)
        self.game: Game = make(self.header.game, **self.header.parameters)
        self.model = model_name(self.game)
        self._guard = threading.Lock()
        self._match_guard = threading.Lock()
        self._log: GameLog | None = None
        self._games: OrderedDict[str, tuple[int, ValidatedGame]] = OrderedDict()
        self._seats = SeatSample()
        self._reader = MetricsReader(paths.metrics)
        self._metrics: tuple[Signature, Metrics] | None = None
        self._accuracy: tuple[Signature, tuple[MeasuredAccuracy, ...]] | None = None
        self._matches = MatchReader(paths, self.model, self.game, cache=cache)
        self._gate: tuple[Signature, Gate] | None = None
        self._models: tuple[Signature, ModelQuery, ModelList] | None = None
        self._exported_at_ms: dict[int, int] = {}
        self._match: tuple[tuple[int, str], StoredMatch] | None = None  # with the restarts of the reader
        self._history: tuple[Signature, list[Champion]] | None = None

    def metrics(self) -> Metrics:
        """Return the columns of the run's metrics, read on when a file has grown; see `MetricsReader`."""
        signature = signature_of(self.paths.metrics / "trainer.jsonl", self.paths.metrics / "run.jsonl")
        with self._guard:
            if self._metrics is None or self._metrics[0] != signature:
                self._metrics = (signature, self._reader.read())
            return self._metrics[1]

    def series(self, *, points: int | None) -> RunSeries:
        """Return the series of the run for charts, at most about `points` rows of each group; None for every row.

        Raises as `gate`.
        """
        metrics = read_metrics(self.paths.metrics) if points is None else self.metrics()
        began = began_s(metrics)
        found = run_series(metrics, self.history(), points=EVERY if points is None else points)
        with self._guard, suppress(RunDirectoryError):  # of an unreadable game log, which the page of games reports
            if self._is_stored():
                found = with_seats(found, metrics, *self._seats.read(self._opened()))
        measured = self.accuracy()
        if not measured:
            return found
        gate, versions = self.gate(), {one.version for one in measured}
        entries = stored_entries(self.paths, self.model, gate.candidates, gate.rungs, versions)
        return with_accuracy(found, measured, entries, None if began is None else time_of(round(began * 1000)))

    def accuracy(self) -> tuple[MeasuredAccuracy, ...]:
        """Return the recorded measurements against perfect play, oldest first, read again when the record has changed."""
        signature = signature_of(accuracy_file(self.paths))
        with self._guard:
            if self._accuracy is None or self._accuracy[0] != signature:
                self._accuracy = (signature, read_accuracy(self.paths))
            return self._accuracy[1]

    def champion(self) -> Champion | None:
        """Return the champion of the run."""
        return open_run_store(self.paths).champion(self.model)

    def history(self) -> list[Champion]:
        """Return every promotion, oldest first, read again when the files of the store have changed."""
        home = self.paths.models / self.model
        signature, known = signature_of(home / "champion_history.jsonl", home / "champion.json"), self._history
        if known is None or known[0] != signature or NO_FILE in signature.stamps:  # an object store has no files here
            known = (signature, open_run_store(self.paths).history(self.model, whole=True))
            self._history = known
        return list(known[1])

    def gate(self) -> Gate:
        """Return candidates, ratings and matches from the gatekeeper's journal.

        Raises `RunDirectoryError` for a damaged one.
        """
        home = self.paths.models / self.model
        signature = signature_of(self.paths.gatekeeper / JOURNAL_FILE, home / "champion_history.jsonl", self.paths.experiment)
        with self._guard:
            if self._gate is None or self._gate[0] != signature:
                record, matches = self._matches.read()
                history = open_run_store(self.paths).history(self.model)
                rungs = tuple(standings(record, history))
                ladder = ladder_of(rungs, record.evidence({rung.name for rung in rungs}.__contains__), history)
                self._gate = (signature, Gate(dict(sorted(record.candidates.items())), rungs, ladder, matches))
            return self._gate[1]

    def recorded(self) -> tuple[Readings, datetime | None]:
        """Return the readings of the newest rows of the files, and their time; None without one. Raises as `gate`."""
        gate = self.gate()
        candidates = tuple(gate.candidates.values())
        return recorded_readings(self.metrics(), self.champion(), candidates, gate.rungs, _open_match(gate))

    def overview(self) -> Overview:
        """Return the state of the run from its files alone. Raises as `gate`."""
        readings, at = self.recorded()
        since, numbers = self.since(readings.candidates), latest_numbers(self.paths)
        return describe(readings, at=at, is_live=False, events=self.promotions(), since=since, numbers=numbers)

    def status(self, state: Overview | None = None) -> RunStatus:
        """Return the row of the run with a state, by default that of its files. Raises as `row`."""
        return RunStatus(**dict(self.row()), overview=state or self.overview())

    def since(self, candidates: Sequence[Candidate]) -> dict[int, datetime]:
        """Return the times of the last promotion of the newest candidates, of their export where they were never promoted."""
        store, promoted = open_run_store(self.paths), {one.version: one.promoted_at_ms for one in self.history()}
        found = {}
        for version in (one.version for one in candidates[-CANDIDATES_SHOWN:]):
            if version not in promoted and version not in self._exported_at_ms:
                try:
                    self._exported_at_ms[version] = store.manifest(self.model, version).created_at_ms
                except (ModelNotFound, CorruptModel):
                    self._exported_at_ms[version] = 0  # unknown: it was deleted, or is damaged
            if (time := time_of(promoted.get(version, self._exported_at_ms.get(version, 0)))) is not None:
                found[version] = time
        return found

    def row(self) -> RunRow:
        """Return the row of the run in a list of runs. Raises as `gate`, and `OSError`."""
        return run_row(self.name, overview(self.paths.root, rungs=self.gate().rungs), metrics=self.metrics())

    def promotions(self) -> list[Event]:
        """Return the newest promotions as events."""
        newest = [(one, time_of(one.promoted_at_ms)) for one in self.history()[-EVENTS_SHOWN:]]
        return [Event(at=at, text=f"version {one.version} promoted: {one.reason}") for one, at in newest if at is not None]

    def models(self, query: ModelQuery = ALL_MODELS) -> ModelList:
        """Return a row for each wanted version; the last answer is kept until versions, journal or champion change."""
        home, gate = self.paths.models / self.model, self.gate()
        signature = signature_of(home, home / "champion_history.jsonl", self.paths.gatekeeper / JOURNAL_FILE)
        with self._guard:
            if self._models is None or self._models[:2] != (signature, query):
                listed = list_models(self.paths, self.model, gate.candidates, gate.rungs, query)
                self._models = (signature, query, listed)
            return self._models[2]

    def version(self, version: int) -> ModelDetail:
        """Return a version with its manifest. Raises `ModelNotFound`, `CorruptModel`."""
        gate = self.gate()
        found = model_detail(self.paths, self.model, version, gate.candidates, gate.rungs)
        return found.model_copy(update={"match_id": stored_match_of(gate.matches, version)})

    def match(self, match_id: str) -> MatchDetail:
        """Return a match with its games. Raises `ModelNotFound` where the journal does not hold them."""
        with self._match_guard:
            return match_detail(self._stored_match(match_id), self.paths)

    def several_matches(self, match_ids: Sequence[str]) -> tuple[MatchDetail, ...]:
        """Return matches with their games, as `match` does, from one look at the journal."""
        found = find_matches(self.paths, self.model, self.game, match_ids)
        return tuple(match_detail(found[match_id], self.paths) for match_id in match_ids)

    def match_position(self, match_id: str, *, pair: int, number: int, ply: int) -> State:
        """Return a position of a match; see `zerofleet.library.match_games.match_position`."""
        with self._match_guard:
            return match_position(self._stored_match(match_id), pair=pair, number=number, ply=ply)

    def match_game(self, match_id: str, *, pair: int, number: int) -> PlayedGame:
        """Return a game of a match; see `zerofleet.library.match_games.played_game`."""
        with self._match_guard:
            return played_game(self._stored_match(match_id), pair=pair, number=number)

    def _stored_match(self, match_id: str) -> StoredMatch:
        """Return a match; the last one is kept, whose positions a page asks for one by one. For the holder of the match guard.

        An open one follows the reader of the gate; another one is read from the journal once, since the record has no games of
        closed matches.
        """
        candidates = self.gate().candidates
        with self._guard:
            place = (self._matches.restarts, match_id)
            known = self._match[1] if self._match is not None and self._match[0] == place else None
            if known is None or known.is_open:
                known = self._matches.open_match(match_id, known)
        if known is None:
            known = find_matches(self.paths, self.model, self.game, [match_id])[match_id]
        self._match = (place, known)
        candidate = candidates.get(known.version)
        return known if candidate is None else replace(known, status=candidate.status.value)

    def games(self, *, limit: int, before: int | None) -> GameList:
        """Return stored games, newest first; see `list_games`. Raises `RunDirectoryError`, `RecordRejected`."""
        with self._guard:
            return list_games(self._opened(), limit=limit, before=before)

    def newest_logged(self, limit: int, *, before: int | None = None) -> tuple[int, list[LoggedGame]]:
        """Return the number below which games were taken, and at most `limit` of them as they are stored, newest first.

        Damaged entries are left out. Raises `RunDirectoryError`; a run whose trainer has stored nothing yet has none.
        """
        with self._guard:
            if self._log is None and not self.paths.replay.is_dir():
                return 0, []
            log = self._opened()
            end = log.end_index if before is None else min(before, log.end_index)
            return end, list(newest(log, limit, before=end))

    def found_games(self, query: GameQuery) -> GameList:
        """Return the stored games that a bounded search finds, newest first; see `GameSearch`.

        Other readers of the run come between its steps. Raises `InvalidRequest`, `RunDirectoryError`, and without a filter
        as `games`.
        """
        if not query.has_filter:
            return self.games(limit=query.limit, before=query.before)
        search = GameSearch(query, self.game.spec())
        while True:
            with self._guard:
                log = self._opened()
                search.advance(log)
                if search.is_over:
                    return search.found(log)

    def finished(self, *, limit: int, after: int = -1) -> FinishedGames:
        """Return at most `limit` games with numbers above `after`, newest first, kept for `stored`.

        Damaged games and those of another release are left out. Raises `RunDirectoryError`; `RecordRejected` when none of the
        newest `limit` of all games can be read.
        """
        found: list[FinishedGame] = []
        refused: RecordRejected | None = None
        total, spec = 0, self.game.spec()
        with self._guard:
            if self._is_stored():
                log = self._opened()
                total = len(log)
                for logged in newest(log, limit, after=after):
                    try:
                        found.append(finished_game(*self._replayed(logged)))
                    except RecordRejected as error:
                        refused = error
        if refused is not None and not found and after < 0:
            raise refused
        return FinishedGames(total=total, players=spec.num_players, is_hidden=spec.information != "perfect", games=tuple(found))

    def stored(self, uid: str) -> tuple[int, ValidatedGame]:
        """Return a stored game by its uid or a prefix, with its number. Raises `InvalidRequest`, `RecordRejected`."""
        with self._guard:
            if uid in self._games:
                self._games.move_to_end(uid)
                return self._games[uid]
            return self._replayed(find_game(self._opened(), uid))

    def _replayed(self, logged: LoggedGame) -> tuple[int, ValidatedGame]:
        """Return a game with its number, replayed unless it is kept. For the holder of the guard. Raises `RecordRejected`."""
        if logged.uid not in self._games:
            self._games[logged.uid] = (logged.index, read_game(logged))
            while len(self._games) > GAMES_KEPT:
                self._games.popitem(last=False)
        self._games.move_to_end(logged.uid)
        return self._games[logged.uid]

    def close(self) -> None:
        """Close the files."""
        with self._guard:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _is_stored(self) -> bool:
        """Return whether there is a game log; there is none before the first start of the trainer."""
        return self._log is not None or self.paths.replay.is_dir()

    def _opened(self) -> GameLog:
        if self._log is None:
            self._log = GameLog.open(self.paths.replay, writer=False)
            weakref.finalize(self, self._log.close)  # of a run that is closed while a request reads on
        else:
            self._log.refresh()
        return self._log


def _open_match(gate: Gate) -> Match | None:
    """Return the newest match of the gate that goes on, None without one; other open ones were left by a killed process."""
    for row in gate.matches.matches:
        if row.state == "open" and row.status in (CandidateStatus.PLAYING, CandidateStatus.TRIAL):
            counts, bounds = (row.wins, row.draws, row.losses), (row.llr_low or 0.0, row.llr_high or 0.0)
            points = (row.share, row.share_low, row.share_high) if row.pairs else (None, None, None)
            return Match(row.version, *counts, row.log_likelihood_ratio, *bounds, *points)
    return None


def signature_of(*paths: Path) -> Signature:
    """Return the present identities, times and sizes of files; `NO_FILE` for those that are not there.

    A copy that keeps the time of modification, by `cp -a`, can have the inode number of the removed file: the time of the last
    change of the inode tells them apart.
    """
    stamps = []
    for path in paths:
        try:
            found = path.stat()
            stamps.append((found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size))
        except OSError:
            stamps.append(NO_FILE)
    return Signature(tuple(stamps))
