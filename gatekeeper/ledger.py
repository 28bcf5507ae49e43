"""Ledger: state of candidates and matches, in memory and in the journal.

Every change is durable before it is visible; every method that makes one raises `StaleEpoch` when another gatekeeper has taken
the lease, whose journal it is then. At the start the journal is replayed into memory, and compacted: the single
games of closed matches are dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Literal

import structlog

from games.core import Game
from gatekeeper import events
from gatekeeper.disk import Disk
from gatekeeper.events import Event
from gatekeeper.journal import EventJournal
from zerofleet.contracts.promotions import Candidate, CandidateStatus, MatchReport
from zerofleet.errors import InvalidRequest, RecordRejected, StaleEpoch
from zerofleet.strength.ladders import evidence
from zerofleet.strength.matches import GameResult, MatchTerms, Player, Scoreboard
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["Ledger", "Purpose"]

Purpose = Literal["gate", "ladder"]
_CHANGE = re.compile(r"[0-9]{1,18}")

log = structlog.get_logger()


class Ledger:
    """Candidates, open matches and tallies of one model."""

    def __init__(self, journal: EventJournal, *, model: str, game: Game, disk: Disk) -> None:
        self.model = model
        self._game = game
        self._journal = journal
        self._disk = disk
        self._candidates: dict[int, Candidate] = {}
        self._changes: dict[int, int] = {}
        """Number of the last change of each candidate, by version; in the order of the changes."""
        self._newest_change = 0
        self._session = secrets.token_hex(4)
        self._hashes: dict[int, str] = {}
        self._boards: dict[str, tuple[Purpose, Scoreboard]] = {}
        self._closed: dict[tuple[str, str], list[Tally | Placement]] = {}
        """Rated games of closed matches by their players, games of equal outcome added up."""
        self.changed = asyncio.Event()
        """Set, and replaced by another event, at the next change."""
        self._lost_lease = asyncio.Event()

    def load(self) -> None:
        """Replay the journal and compact it; blocks on the disk. Raises `RunDirectoryError`, `Unavailable`."""
        for event in self._journal.read():
            try:
                self._fold(event)
            except RecordRejected as error:
                log.warning("journal.result_refused", reason=error.reason, text=str(error))
        self._journal.rewrite(self._present())

    async def until_lost(self) -> None:
        """Wait until an event was refused because another gatekeeper has taken over, then raise `StaleEpoch`.

        Cancellation: no effect.
        """
        await self._lost_lease.wait()
        raise StaleEpoch(f"another gatekeeper decides on {self.model} now; this one stops")

    def candidates(self) -> list[Candidate]:
        """Return every candidate, settled or not, by version."""
        return [self._candidates[version] for version in sorted(self._candidates)]

    def changes(self, cursor: str, limit: int) -> tuple[list[Candidate], str, bool]:
        """Return at most `limit` candidates changed after a cursor, oldest change first, the next cursor and if more follow.

        A cursor that is not of this process begins with the first candidate.
        """
        session, _, text = cursor.partition(":")
        seen = int(text) if session == self._session and _CHANGE.fullmatch(text) else 0
        fresh = list(itertools.takewhile(lambda version: self._changes[version] > seen, reversed(self._changes)))[::-1]
        page = fresh[:limit]
        last = self._changes[page[-1]] if page else seen
        return [self._candidates[version] for version in page], f"{self._session}:{last}", len(fresh) > limit

    def _note_change(self, candidate: Candidate) -> None:
        self._candidates[candidate.version] = candidate
        self._newest_change += 1
        self._changes.pop(candidate.version, None)
        self._changes[candidate.version] = self._newest_change

    def candidate(self, version: int) -> Candidate | None:
        """Return a candidate, None for an unknown version."""
        return self._candidates.get(version)

    def unsettled(self) -> list[int]:
        """Return the versions that wait for a decision, oldest first."""
        return [candidate.version for candidate in self.candidates() if not candidate.status.settled]

    async def submit(self, version: int, manifest_sha256: str) -> Candidate:
        """Add a candidate; return a known one unchanged.

        Raises `InvalidRequest` for a known number with other content; `Unavailable` when the write fails.
        Cancellation: the candidate is either added or unknown.
        """
        if version in self._hashes:
            if self._hashes[version] != manifest_sha256:
                raise InvalidRequest(
                    f"version {version} was offered before with manifest {self._hashes[version][:16]}…, "
                    f"now with {manifest_sha256[:16]}…; versions are immutable, publish a new one"
                )
        else:
            await self._commit(events.Submitted(version=version, manifest_sha256=manifest_sha256))
        return self._candidates[version]

    async def set_status(
        self, version: int, status: CandidateStatus, *, reason: str = "", report: MatchReport | None = None
    ) -> Candidate:
        """Record the status of a candidate. Raises `Unavailable`. Cancellation: recorded, or no effect."""
        known = self._candidates.get(version)
        if known is None or (known.status, known.reason, known.match) != (status, reason, report):
            await self._commit(events.StatusChanged(version=version, status=status, reason=reason, report=report))
        return self._candidates[version]

    async def open_match(self, terms: MatchTerms, purpose: Purpose) -> Scoreboard:
        """Return the board of a match with its results so far. Raises `Unavailable`. Cancellation: as `set_status`."""
        if terms.match_id not in self._boards:
            await self._commit(_opened(terms, purpose))
        return self._boards[terms.match_id][1]

    async def record(self, result: GameResult) -> None:
        """Count a result of an open match, once. Raises `RecordRejected`, `Unavailable`. Cancellation: as `set_status`."""
        if self._board(result.match_id).is_new(result):
            await self._commit(_ended(result))

    async def close_match(self, match_id: str, *, rated_groups: int) -> None:
        """Close a match; its first `rated_groups` groups are rated. Raises `Unavailable`. Cancellation: as `set_status`."""
        if match_id in self._boards:
            await self._commit(events.MatchClosed(match_id=match_id, rated_groups=rated_groups))

    def boards(self, purpose: Purpose) -> list[Scoreboard]:
        """Return the boards of the open matches with that purpose."""
        return [board for kind, board in self._boards.values() if kind == purpose]

    def evidence(self) -> list[Tally | Placement]:
        """Return all rated games: those of closed matches and of the ladder's open ones."""
        found = [one for counted in self._closed.values() for one in counted]
        for purpose, board in self._boards.values():
            if purpose == "ladder":
                found += evidence(board)
        return found

    def games_between(self, first: str, second: str) -> int:
        """Return the rated games of closed matches between two players, named in that order."""
        return sum(one.games for one in self._closed.get((first, second), ()))

    def _board(self, match_id: str) -> Scoreboard:
        if match_id not in self._boards:
            raise RecordRejected("finished_match", f"match {match_id!r} is over or never began; its results change nothing")
        return self._boards[match_id][1]

    async def _commit(self, event: Event) -> None:
        try:
            await self._disk.commit(lambda: self._journal.append(event), lambda _: self._announce(event))
        except StaleEpoch:
            self._lost_lease.set()
            raise

    def _announce(self, event: Event) -> None:
        self._fold(event)
        self.changed.set()
        self.changed = asyncio.Event()

    def _fold(self, event: Event) -> None:
        match event:
            case events.Submitted(version=version):
                self._hashes[version] = event.manifest_sha256
                if version not in self._candidates:
                    self._note_change(Candidate(self.model, version, CandidateStatus.QUEUED))
            case events.StatusChanged(version=version):
                known = self._candidates.get(version) or Candidate(self.model, version, event.status)
                self._note_change(replace(known, status=event.status, match=event.report, reason=event.reason))
            case events.MatchOpened(match_id=match_id):
                self._boards[match_id] = (event.purpose, Scoreboard(self._terms(event)))
            case events.GameEnded(match_id=match_id):
                self._board(match_id).record(GameResult(**event.model_dump(exclude={"event"})))
            case events.MatchClosed(match_id=match_id):
                _, board = self._boards.pop(match_id)
                board.close()
                first, second = board.terms.players
                for one in evidence(board, event.rated_groups):
                    self._count(first.name, second.name, one)
            case events.Tallied(first=first, second=second):
                self._count(first, second, Tally(first, second, event.points, event.games))
            case events.Placed(first=first, second=second):
                self._count(first, second, Placement(event.players, event.places, event.games))

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
        )

    def _present(self) -> Iterator[Event]:
        """Yield events that fold into the present state."""
        for version, sha256 in sorted(self._hashes.items()):
            yield events.Submitted(version=version, manifest_sha256=sha256)
        for candidate in self.candidates():
            yield events.StatusChanged(
                version=candidate.version, status=candidate.status, reason=candidate.reason, report=candidate.match
            )
        for (first, second), counted in self._closed.items():
            for one in counted:
                if isinstance(one, Tally):
                    yield events.Tallied(first=first, second=second, points=one.points, games=one.games)
                else:
                    yield events.Placed(first=first, second=second, players=one.players, places=one.places, games=one.games)
        for purpose, board in self._boards.values():
            yield _opened(board.terms, purpose)
            yield from (_ended(result) for result in board.results())


def _opened(terms: MatchTerms, purpose: Purpose) -> events.MatchOpened:
    first, second = terms.players
    return events.MatchOpened(
        match_id=terms.match_id,
        purpose=purpose,
        first=first.name,
        second=second.name,
        seed=terms.seed,
        opening_plies=terms.opening_plies,
        max_groups=terms.max_groups,
    )


def _ended(result: GameResult) -> events.GameEnded:
    """Return the line for a result, without its efforts: no verdict and no rating depends on them."""
    known = asdict(result)
    del known["efforts"]
    return events.GameEnded(**known)
