"""Matches of the gate as commands and pages show them: verdict, score, pairs of games, and the path of the sequential test.

The journal holds the games of a match until the gatekeeper compacts it, at its start and when it is large; then the report of
the verdict alone remains.
The path is computed from the games by the rule of the run's settings, as the gatekeeper computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from games.core import Game
from games.positions import move_names
from zerofleet.contracts.gate_events import TRIAL_MATCH
from zerofleet.contracts.promotions import Candidate, MatchReport
from zerofleet.errors import ConfigurationError, ModelNotFound
from zerofleet.library.gate_snapshot import GateSnapshots
from zerofleet.library.match_rows import Kind, MatchList, MatchRow, Stage
from zerofleet.library.run_settings import gate_settings
from zerofleet.library.values import Value
from zerofleet.presets.gate_rules import stopping_rule, trial_rule
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.run_paths import RunPaths
from zerofleet.strength.gate_record import GateRecord, fold_all, match_report, read_record
from zerofleet.strength.matches import GameResult, Scoreboard, SequentialTest, StoppingRule, points

__all__ = [
    "MatchDetail",
    "MatchGame",
    "MatchList",
    "MatchPair",
    "MatchReader",
    "MatchRow",
    "StoredMatch",
    "deal_seed",
    "find_matches",
    "game_number",
    "games_by_group",
    "match_detail",
    "stored_match_of",
]


class MatchGame(Value):
    """Game of a match."""

    number: int
    """Number of the game of its pair, from 1: the place of its seating, also while games before it are missing."""
    seats: tuple[int, ...]
    """Seats of the version, from 1."""
    moves: tuple[str, ...]
    """All moves, the opening included."""
    scores: tuple[float, ...]
    """By seat, in [-1, 1]."""
    points: float
    """The version's share of the points."""


class MatchPair(Value):
    """Games from one opening, one for each seating of the players."""

    number: int
    """From 1."""
    opening_plies: int
    """Moves of the opening, which all its games share."""
    is_counted: bool
    """Whether it counts: it is complete, and was begun before the decision."""
    points: float | None
    """The version's share of the points; None while a game is missing."""
    games: tuple[MatchGame, ...]


class MatchDetail(MatchRow):
    """Match with its games."""

    play: str
    """How both versions choose their moves, such as `64 simulations a move, 4 leaves a request, root=puct`; empty where the
    journal does not state it."""
    path: tuple[float, ...]
    """Value of the sequential test after each pair that counts, from 0 before the first; empty without such a test."""
    games: tuple[MatchPair, ...]
    """Pairs in the order in which they began; empty where their games are gone."""


class MatchReader:
    """Record of a gate and its matches, which follows the journal: a further read takes the lines since the one before.

    For one thread at a time.
    """

    def __init__(self, paths: RunPaths, model: str, game: Game, *, cache: Path | None = None) -> None:
        """Create it without file access; `cache`: directory of snapshots, None for none."""
        self._paths = paths
        self._snapshots = None if cache is None else GateSnapshots(cache, paths.gatekeeper / JOURNAL_FILE)
        self._model, self._game = model, game
        self._journal = EventJournal(paths.gatekeeper / JOURNAL_FILE, model=model)
        self._rules: _Rules | None = None
        self._record = self._empty()
        self._closed: list[MatchRow] = []
        self.restarts = 0
        """Number of times at which the journal was read from its beginning: it was new, rewritten, or the settings changed."""

    def read(self) -> tuple[GateRecord, MatchList]:
        """Return the record, which the next read changes, and the matches. Raises `RunDirectoryError`."""
        rules, known = _Rules.of(self._paths), self._rules
        self._rules = None  # so that everything is read again after an error
        fresh = self._journal.read_more() if rules == known else None
        if fresh is None:
            self._begin(rules)
            fresh = self._journal.read_more()

        def keep(record: GateRecord, board: Scoreboard) -> None:
            self._closed.append(_row_of(board, _candidate(record, board), rules, is_open=False))

        while fresh:  # ends also where the journal is rewritten meanwhile, which the next look notices
            fold_all(self._record, fresh, at_close=keep)
            fresh = self._journal.read_more()
        self._rules = rules
        if self._snapshots is not None:
            self._snapshots.save(self._record, repr(rules), self._journal.mark(), self._closed)
        return self._record, _listed(self._record, self._closed, rules)

    def _begin(self, rules: _Rules) -> None:
        """Begin at the snapshot of this journal, and without one at its first event."""
        self._record, self._closed = self._empty(), []
        self.restarts += 1
        known = None if self._snapshots is None else self._snapshots.load(self._record, repr(rules))
        if known is not None and self._journal.resume(known[0]):
            self._closed = known[1]
            return
        if self._snapshots is not None:
            self._snapshots.forget()
        self._record = self._empty()
        self._journal.rewind()

    def open_match(self, match_id: str, known: StoredMatch | None) -> StoredMatch | None:
        """Return an open match of the gate as of the last read, None where it is not open.

        Its board is that of `known`, an earlier answer since the same restart, to which later results are added; without one it
        is new. The next read does not change it.
        """
        purpose, board = self._record.boards.get(match_id, ("", None))
        if board is None or purpose != "gate":
            return None
        own = Scoreboard(board.terms) if known is None else known.board
        for result in board.results()[len(own.results()) :]:
            own.restore(result)
        return StoredMatch(own, None, True, _status(self._record, _version(board)))

    def _empty(self) -> GateRecord:
        return GateRecord(self._model, self._game, validates=False)


def _listed(record: GateRecord, closed: Sequence[MatchRow], rules: _Rules) -> MatchList:
    boards = [board for purpose, board in record.boards.values() if purpose == "gate"]
    still_open = [_row_of(board, _candidate(record, board), rules, is_open=True) for board in boards]
    rows = [*closed, *still_open]
    told = {(row.version, row.opponent) for row in rows if row.state == "decided"}
    reports = [
        _row(version, one, one.match, rules.gate if one.match.log_likelihood_ratio else None)
        for version, one in sorted(record.candidates.items())
        if one.match is not None and (version, one.match.champion_version) not in told
    ]
    listed = [row.model_copy(update={"status": _status(record, row.version)}) for row in (*reports, *rows)]
    listed.sort(key=lambda row: row.version)  # of a version in the order of its matches
    matches = tuple(reversed(listed))
    return MatchList(matches=matches, total=len(matches), next_before=None, rule=rules.words, fault=rules.fault)


def stored_match_of(listed: MatchList, version: int) -> str:
    """Return the id of the newest match of a version whose games the journal holds, one with a verdict or open before others.

    Empty without one.
    """
    stored = [row for row in listed.matches if row.version == version and row.id]
    return next((row.id for row in (*(one for one in stored if one.state != "ended"), *stored)), "")


@dataclass(frozen=True, slots=True)
class _Rules:
    """Stopping rules of a run; without its settings none."""

    gate: StoppingRule | None = None
    trial: StoppingRule | None = None
    words: str = ""
    fault: str = ""

    @classmethod
    def of(cls, paths: RunPaths) -> _Rules:
        try:
            settings = gate_settings(paths)
            gate, trial = stopping_rule(settings), trial_rule(settings)
        except ConfigurationError as error:
            return cls(fault=str(error))
        words = {
            "off": "every candidate is promoted",
            "share": f"a candidate needs {settings.share:.0%} of the points of {settings.max_pairs} pairs",
            "sprt": f"a sequential test of {_elo(settings.elo1)} against {_elo(settings.elo0)} Elo",
            "watch": "every candidate is promoted at once, and measured afterwards by a sequential test of "
            f"{_elo(settings.watch_elo1)} against {_elo(settings.watch_elo0)} Elo",
        }
        return cls(gate, trial, words[settings.mode])

    def of_match(self, match_id: str) -> StoppingRule | None:
        return self.trial if match_id.startswith(TRIAL_MATCH) else self.gate


def _row_of(board: Scoreboard, candidate: Candidate | None, rules: _Rules, *, is_open: bool) -> MatchRow:
    match_id, opponent = board.terms.match_id, board.terms.players[1].version or 0
    rule, report = rules.of_match(match_id), None if candidate is None or is_open else candidate.match
    stage: Stage = "open" if is_open else "decided"
    if report is None or report.champion_version != opponent:
        standing = board.standing()
        report = match_report(opponent, standing, 0.0 if rule is None else rule.log_likelihood_ratio(standing))
        stage = "open" if is_open else "ended"
    kind: Kind = "measurement" if match_id.startswith(TRIAL_MATCH) else "gate"
    row = _row(_version(board), candidate, report, rule)
    return row.model_copy(update={"id": match_id, "kind": kind, "state": stage})


def _row(version: int, candidate: Candidate | None, report: MatchReport, rule: StoppingRule | None) -> MatchRow:
    """Return the row of a decided match of which the report alone remains."""
    llr_low, llr_high = _bounds(rule)
    return MatchRow(
        id="",
        kind="",
        version=version,
        opponent=report.champion_version,
        state="decided",
        status="" if candidate is None else candidate.status.value,
        reason="" if candidate is None else candidate.reason,
        pairs=sum(report.pentanomial),
        wins=report.wins,
        draws=report.draws,
        losses=report.losses,
        pentanomial=report.pentanomial,
        is_begun=report.wins + report.draws + report.losses > 0,
        share=report.share,
        share_low=report.share_low,
        share_high=report.share_high,
        log_likelihood_ratio=report.log_likelihood_ratio,
        llr_low=llr_low,
        llr_high=llr_high,
    )


def _elo(difference: float) -> str:
    return f"{difference:+g}" if difference else "0"


def _status(record: GateRecord, version: int) -> str:
    candidate = record.candidates.get(version)
    return "" if candidate is None else candidate.status.value


def _bounds(rule: StoppingRule | None) -> tuple[float, float] | tuple[None, None]:
    return (rule.sprt.lower, rule.sprt.upper) if isinstance(rule, SequentialTest) else (None, None)


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """Match whose games the journal holds: its board, with the candidate at its close, or at present."""

    board: Scoreboard
    candidate: Candidate | None
    is_open: bool
    status: str
    """Status of the version at present."""

    @property
    def version(self) -> int:
        """Version that is measured."""
        return _version(self.board)


def find_matches(paths: RunPaths, model: str, game: Game, match_ids: Sequence[str]) -> dict[str, StoredMatch]:
    """Return matches by id, from one look at the journal. Raises `ModelNotFound`, `RunDirectoryError`."""
    closed: dict[str, tuple[Scoreboard, Candidate | None]] = {}

    def keep(record: GateRecord, board: Scoreboard) -> None:
        if board.terms.match_id in match_ids:
            closed[board.terms.match_id] = (board, _candidate(record, board))

    record = read_record(paths.gatekeeper, model, game, at_close=keep, games_of=match_ids)
    found = {
        match_id: StoredMatch(board, one, False, _status(record, _version(board))) for match_id, (board, one) in closed.items()
    }
    for match_id, (purpose, board) in record.boards.items():
        if match_id in match_ids and purpose == "gate":
            found[match_id] = StoredMatch(board, None, True, _status(record, _version(board)))
    if missing := [match_id for match_id in match_ids if match_id not in found]:
        raise ModelNotFound(f"the journal has no games of match {missing[0]!r}: the list of matches has those that are stored")
    return found


def match_detail(found: StoredMatch, paths: RunPaths) -> MatchDetail:
    """Return a match with its games, whose moves are named by the rules."""
    rules, board = _Rules.of(paths), found.board
    rule = rules.of_match(board.terms.match_id)
    row = _row_of(board, found.candidate, rules, is_open=found.is_open).model_copy(update={"status": found.status})
    path: tuple[float, ...] = ()
    if isinstance(rule, SequentialTest):
        path = tuple(rule.log_likelihood_ratio(board.standing(groups)) for groups in range(row.pairs + 1))
    play = "" if board.terms.play is None else str(board.terms.play)
    return MatchDetail(**dict(row), play=play, path=path, games=tuple(_pairs(board, row.pairs)))


def _version(board: Scoreboard) -> int:
    return board.terms.players[0].version or 0


def _candidate(record: GateRecord, board: Scoreboard) -> Candidate | None:
    return record.candidates.get(_version(board))


def games_by_group(board: Scoreboard) -> dict[int, list[GameResult]]:
    """Return the games by group, each in the order of the seatings."""
    found: dict[int, list[GameResult]] = {}
    for result in sorted(board.results(), key=lambda one: (one.group, one.seating)):
        found.setdefault(result.group, []).append(result)
    return found


def game_number(board: Scoreboard, result: GameResult) -> int:
    """Return the number of a game of its group, from 1, which is the same before and after the others end."""
    return board.terms.seatings.index(result.seating) + 1


def _pairs(board: Scoreboard, counted: int) -> list[MatchPair]:
    pairs = []
    for group, results in games_by_group(board).items():
        shares = [points(one.seating, one.scores) for one in results]
        opening, is_complete = board.opening(group), len(results) == board.terms.games_per_group
        pairs.append(
            MatchPair(
                number=group + 1,
                opening_plies=0 if opening is None else len(opening.moves),
                is_counted=group < counted,
                points=sum(shares) / len(shares) if is_complete else None,
                games=tuple(_game(board, one, share) for one, share in zip(results, shares, strict=True)),
            )
        )
    return pairs


def _game(board: Scoreboard, result: GameResult, share: float) -> MatchGame:
    return MatchGame(
        number=game_number(board, result),
        seats=tuple(seat for seat, player in enumerate(result.seating, start=1) if player == 0),
        moves=tuple(move_names(board.terms.game, result.moves, deal_seed(board, result.group))),
        scores=result.scores,
        points=share,
    )


def deal_seed(board: Scoreboard, group: int) -> int:
    """Return the seed of the deal of a group's games."""
    opening = board.opening(group)
    return 0 if opening is None else opening.seed
