"""Record of a gate: candidates, open matches and rated games, folded from the events of its journal.

The gatekeeper folds each event after it is durable; a command folds the journal's file. Equal events give equal records, so
verdicts and ratings are the same during a run and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from games.core import Game
from zerofleet.contracts import gate_events as events
from zerofleet.contracts.gate_events import Event
from zerofleet.contracts.promotions import Candidate, CandidateStatus, MatchReport
from zerofleet.errors import RecordRejected
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.ladders.evidence import evidence
from zerofleet.strength.matches import GameResult, MatchTerms, Player, Scoreboard, Standing
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["GateRecord", "Purpose", "ended", "fold_all", "match_report", "opened", "read_record"]

Purpose = Literal["gate", "ladder"]


class GateRecord:
    """Candidates, open matches and tallies of one model."""

    def __init__(self, model: str, game: Game, *, validates: bool = True) -> None:
        """Create an empty one; `validates`: replay each game with the rules, as the gatekeeper does before it counts."""
        self.model = model
        self._validates = validates
        self.candidates: dict[int, Candidate] = {}
        """Candidates by version: all unsettled ones, and the settled ones whose verdict is kept."""
        self.hashes: dict[int, str] = {}
        """Hash of the manifest of each of these that was submitted, by version."""
        self.dropped_through = 0
        """Highest version whose verdict is no longer kept, 0 if all are."""
        self.boards: dict[str, tuple[Purpose, Scoreboard]] = {}
        """Open matches with their purpose, by id."""
        self._game = game
        self._closed: dict[tuple[str, str], list[Tally | Placement]] = {}
        """Rated games of closed matches by their players, games of equal outcome added up.

        All are kept, since a promotion by hand or the verdict of a measurement can return an old champion to the ratings:
        2.5 KB for each champion rated among eight rungs, at most 30 KB in games of three players.
        """

    def fold(self, event: Event, *, is_moot: bool = False) -> Candidate | None:
        """Apply an event; return the candidate that it changed. Raises `RecordRejected` for an impossible result.

        `is_moot`: a game of a match that was decided since, which is not replayed with the rules.
        """
        match event:
            case events.Submitted():
                return self._submit(event)
            case events.StatusChanged(version=version):
                known = self.candidates.get(version) or Candidate(self.model, version, event.status)
                return self._change(replace(known, status=event.status, match=event.report, reason=event.reason))
            case events.Dropped(versions=versions):
                self._drop(versions)
            case events.MatchOpened(match_id=match_id):
                self.boards[match_id] = (event.purpose, Scoreboard(self._terms(event)))
            case events.GameEnded(match_id=match_id):
                board = self.board(match_id)
                record = board.record if self._validates and not is_moot else board.restore
                record(GameResult(match_id, event.group, event.seating, event.players, event.moves, event.scores))
            case events.MatchClosed():
                self._close(event)
            case events.Tallied(first=first_name, second=second_name):
                self._count(first_name, second_name, Tally(first_name, second_name, event.points, event.games))
            case events.Placed(first=first_name, second=second_name):
                self._count(first_name, second_name, Placement(event.players, event.places, event.games))
        return None

    def board(self, match_id: str) -> Scoreboard:
        """Return the board of an open match; raises `RecordRejected` for another id."""
        if match_id not in self.boards:
            raise RecordRejected("finished_match", f"match {match_id!r} is over or never began; its results change nothing")
        return self.boards[match_id][1]

    def evidence(self, is_counted: Callable[[str], bool] = lambda name: True) -> list[Tally | Placement]:
        """Return the rated games between players that `is_counted` accepts: of closed matches and of the ladder's open ones."""
        pairs = [pair for pair in self._closed if is_counted(pair[0]) and is_counted(pair[1])]
        found = [one for pair in pairs for one in self._closed[pair]]
        for purpose, board in self.boards.values():
            if purpose == "ladder" and all(is_counted(player.name) for player in board.terms.players):
                found += evidence(board)
        return found

    def games_between(self, first: str, second: str) -> int:
        """Return the rated games of closed matches between two players, named in that order."""
        return sum(one.games for one in self._closed.get((first, second), ()))

    def present(self) -> Iterator[Event]:
        """Yield events that fold into the present state."""
        if self.dropped_through:
            yield events.Dropped(versions=(self.dropped_through,))
        for version, sha256 in sorted(self.hashes.items()):
            yield events.Submitted(version=version, manifest_sha256=sha256)
        for _, candidate in sorted(self.candidates.items()):
            yield events.StatusChanged(
                version=candidate.version, status=candidate.status, reason=candidate.reason, report=candidate.match
            )
        for (first, second), counted in self._closed.items():
            for one in counted:
                if isinstance(one, Tally):
                    yield events.Tallied(first=first, second=second, points=one.points, games=one.games)
                else:
                    yield events.Placed(first=first, second=second, players=one.players, places=one.places, games=one.games)
        for purpose, board in self.boards.values():
            yield opened(board.terms, purpose)
            yield from (ended(result) for result in board.results())

    def _submit(self, event: events.Submitted) -> Candidate | None:
        self.hashes[event.version] = event.manifest_sha256
        known = event.version in self.candidates
        return None if known else self._change(Candidate(self.model, event.version, CandidateStatus.QUEUED))

    def _drop(self, versions: Iterable[int]) -> None:
        for version in versions:
            self.candidates.pop(version, None)
            self.hashes.pop(version, None)
            self.dropped_through = max(self.dropped_through, version)

    def _close(self, event: events.MatchClosed) -> None:
        board = self.board(event.match_id)
        del self.boards[event.match_id]
        board.close()
        first, second = board.terms.players
        for one in evidence(board, event.rated_groups):
            self._count(first.name, second.name, one)

    def _change(self, candidate: Candidate) -> Candidate:
        self.candidates[candidate.version] = candidate
        return candidate

    def _count(self, first: str, second: str, new: Tally | Placement) -> None:
        counted = self._closed.setdefault((first, second), [])
        for i, known in enumerate(counted):
            if isinstance(known, Tally) and isinstance(new, Tally):
                counted[i] = replace(known, points=known.points + new.points, games=known.games + new.games)
                return
            if isinstance(known, Placement) and known == replace(new, games=known.games):
                counted[i] = replace(known, games=known.games + new.games)
                return
        counted.append(new)

    def _terms(self, event: events.MatchOpened) -> MatchTerms:
        return MatchTerms(
            match_id=event.match_id,
            game=self._game,
            players=(Player.named(event.first), Player.named(event.second)),
            seed=event.seed,
            opening_plies=event.opening_plies,
            max_groups=event.max_groups,
            play=event.play,
        )


def match_report(champion_version: int, standing: Standing, log_likelihood_ratio: float) -> MatchReport:
    """Return the report of a gate match, from the candidate's point of view; `champion_version` is its opponent."""
    total, (low, high) = standing.total, standing.interval
    return MatchReport(
        champion_version=champion_version,
        wins=total.wins,
        draws=total.draws,
        losses=total.losses,
        pentanomial=standing.pentanomial,
        share=standing.share,
        share_low=low,
        share_high=high,
        log_likelihood_ratio=log_likelihood_ratio,
    )


def opened(terms: MatchTerms, purpose: Purpose) -> events.MatchOpened:
    """Return the event of a match that begins."""
    first, second = terms.players
    return events.MatchOpened(
        match_id=terms.match_id,
        purpose=purpose,
        first=first.name,
        second=second.name,
        seed=terms.seed,
        opening_plies=terms.opening_plies,
        max_groups=terms.max_groups,
        play=terms.play,
    )


def ended(result: GameResult) -> events.GameEnded:
    """Return the event of a game, without its efforts: no verdict and no rating depends on them."""
    known = asdict(result)
    del known["efforts"]
    return events.GameEnded(**known)


def read_record(
    state_dir: Path,
    model: str,
    game: Game,
    *,
    at_close: Callable[[GateRecord, Scoreboard], None] | None = None,
    games_of: Sequence[str] | None = None,
) -> GateRecord:
    """Return the record in a gatekeeper's directory, also while the gatekeeper runs; empty without a journal.

    `at_close` receives the record and the board of each gate match when the match is closed; the record forgets it then.
    `games_of`: matches whose games are wanted, None for all; the ratings are those of these games alone. Raises
    `RunDirectoryError` for a damaged journal, or one of another model.
    """
    record = GateRecord(model, game, validates=False)
    fold_all(record, EventJournal(state_dir / JOURNAL_FILE, model=model).read(games_of=games_of), at_close=at_close)
    return record


def fold_all(
    record: GateRecord, journal: Iterable[Event], *, at_close: Callable[[GateRecord, Scoreboard], None] | None = None
) -> None:
    """Apply the events of a journal to its record; `at_close` as in `read_record`."""
    for event in journal:
        if at_close is not None and isinstance(event, events.MatchClosed) and event.match_id in record.boards:
            purpose, board = record.boards[event.match_id]
            if purpose == "gate":
                at_close(record, board)
        with suppress(RecordRejected):  # of a match that is not open; the gatekeeper itself refuses it at its start
            record.fold(event)
