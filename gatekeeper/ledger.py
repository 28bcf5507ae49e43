"""Ledger: state of candidates and matches, in memory and in the journal.

Every change is durable before it is visible; every method that makes one raises `StaleEpoch` when another gatekeeper has taken
the lease, whose journal it is then. At the start the journal is read into memory, and compacted: the single games of closed
matches are dropped. It is compacted again whenever it has outgrown `COMPACTION_BYTES` and what a compaction left.

The verdicts on `MOST_SETTLED` candidates are kept, and of older ones those that may still matter; a version whose verdict was
dropped is answered as superseded.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Callable, Collection
from functools import partial

import structlog

from games.core import Game
from gatekeeper.disk import Disk
from zerofleet.contracts import gate_events as events
from zerofleet.contracts.gate_events import Event
from zerofleet.contracts.promotions import Candidate, CandidateStatus, MatchReport
from zerofleet.errors import InvalidRequest, RecordRejected, StaleEpoch, Unavailable
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.strength.gate_record import GateRecord, Purpose, ended, opened
from zerofleet.strength.matches import GameResult, MatchTerms, Scoreboard
from zerofleet.telemetry import metrics

__all__ = ["COMPACTION_BYTES", "MOST_SETTLED", "Ledger", "Purpose"]

COMPACTION_BYTES = 16 << 20
"""Size up to which a journal keeps the games of closed matches, for the pages: some hundred matches of short games."""
COMPACTION_FACTOR = 4
"""Multiple of what the last compaction left that the journal must exceed as well: rewrites then cost less than the writes."""

MOST_SETTLED = 10_000
"""Settled candidates that are kept beside champions, versions on trial and players of open matches."""
DROPPED_AT_ONCE = 1_000
"""Fewest verdicts that are dropped together: each time costs a line of the journal."""

_CHANGE = re.compile(r"[0-9]{1,18}")

log = structlog.get_logger()


class Ledger:
    """Candidates, open matches and tallies of one model."""

    def __init__(self, journal: EventJournal, *, model: str, game: Game, disk: Disk) -> None:
        self.model = model
        self._journal = journal
        self._disk = disk
        self.gate = GateRecord(model, game)
        """Everything durable so far; changed by this ledger alone."""
        self._commits = asyncio.Lock()
        """Held from a write until its event is in the record: what a compaction writes is then all that is on the disk."""
        self._compacted_above_bytes = COMPACTION_BYTES
        self._hashes = self.gate.hashes
        self._changes: dict[int, int] = {}
        """Number of the last change of each candidate, by version; in the order of the changes."""
        self._newest_change = 0
        self._session = secrets.token_hex(4)
        self.changed = asyncio.Event()
        """Set, and replaced by another event, at the next change."""
        self._lost_lease = asyncio.Event()

    def load(self) -> None:
        """Read the journal and compact it; blocks on the disk. Raises `RunDirectoryError`, `StaleEpoch`, `Unavailable`.

        Games are replayed with the rules as before they counted, those of matches alone that no later event closes: what
        depended on the others is decided.
        """
        self._journal.take_over()
        closings = self._journal.closings()
        for event in self._journal.stream():
            if isinstance(event, events.MatchClosed):
                closings[event.match_id] -= 1
            try:
                self._fold(event, is_moot=isinstance(event, events.GameEnded) and closings[event.match_id] > 0)
            except RecordRejected as error:
                log.warning("journal.result_refused", reason=error.reason, text=str(error))
        self._compact()
        self._export_queue()

    async def until_lost(self) -> None:
        """Wait until an event was refused because another gatekeeper has taken over, then raise `StaleEpoch`.

        Cancellation: no effect.
        """
        await self._lost_lease.wait()
        raise StaleEpoch(f"another gatekeeper decides on {self.model} now; this one stops")

    def candidates(self) -> list[Candidate]:
        """Return the candidates by version: all unsettled ones, and the settled ones whose verdict is kept."""
        return [self.gate.candidates[version] for version in sorted(self.gate.candidates)]

    def changes(self, cursor: str, limit: int) -> tuple[list[Candidate], str, bool]:
        """Return at most `limit` candidates changed after a cursor, oldest change first, the next cursor and if more follow.

        A cursor that is not of this process begins with the first candidate.
        """
        session, _, text = cursor.partition(":")
        seen = int(text) if session == self._session and _CHANGE.fullmatch(text) else 0
        fresh = list(itertools.takewhile(lambda version: self._changes[version] > seen, reversed(self._changes)))[::-1]
        page = fresh[:limit]
        last = self._changes[page[-1]] if page else seen
        return [self.gate.candidates[version] for version in page], f"{self._session}:{last}", len(fresh) > limit

    def candidate(self, version: int) -> Candidate | None:
        """Return a candidate, None for an unknown version."""
        return self.gate.candidates.get(version)

    def unsettled(self) -> list[int]:
        """Return the versions that wait for a decision, oldest first."""
        return [candidate.version for candidate in self.candidates() if not candidate.status.settled]

    async def submit(self, version: int, manifest_sha256: str) -> Candidate:
        """Add a candidate; return a known one unchanged, and one whose verdict was dropped as superseded.

        Raises `InvalidRequest` for a known number with other content; `Unavailable` when the write fails.
        Cancellation: the candidate is either added or unknown.
        """
        if version in self._hashes:
            if self._hashes[version] != manifest_sha256:
                raise InvalidRequest(
                    f"version {version} was offered before with manifest {self._hashes[version][:16]}…, "
                    f"now with {manifest_sha256[:16]}…; versions are immutable, publish a new one"
                )
        elif version <= self.gate.dropped_through:
            return self.gate.candidates.get(version) or self._superseded(version)
        else:
            await self._commit(events.Submitted(version=version, manifest_sha256=manifest_sha256))
        return self.gate.candidates[version]

    async def set_status(
        self, version: int, status: CandidateStatus, *, reason: str = "", report: MatchReport | None = None
    ) -> Candidate:
        """Record the status of a candidate. Raises `Unavailable`. Cancellation: recorded, or no effect."""
        known = self.gate.candidates.get(version)
        if known is None or (known.status, known.reason, known.match) != (status, reason, report):
            await self._commit(events.StatusChanged(version=version, status=status, reason=reason, report=report))
        return self.gate.candidates[version]

    async def open_match(self, terms: MatchTerms, purpose: Purpose) -> Scoreboard:
        """Return the board of a match with its results so far. Raises `Unavailable`. Cancellation: as `set_status`."""
        if terms.match_id not in self.gate.boards:
            await self._commit(opened(terms, purpose))
        return self.gate.board(terms.match_id)

    async def record(self, result: GameResult) -> None:
        """Count a result of an open match, once. Raises `RecordRejected`, `Unavailable`. Cancellation: as `set_status`."""
        if self.gate.board(result.match_id).is_new(result):
            await self._commit(ended(result))

    async def close_match(self, match_id: str, *, rated_groups: int) -> None:
        """Close a match; its first `rated_groups` groups are rated. Raises `Unavailable`. Cancellation: as `set_status`."""
        is_open = partial(self.gate.boards.__contains__, match_id)
        if is_open():
            await self._commit(events.MatchClosed(match_id=match_id, rated_groups=rated_groups), is_due=is_open)

    async def drop_old(self, champions: Collection[int]) -> list[int]:
        """Drop the verdicts beyond `MOST_SETTLED`, oldest versions first, and return those versions.

        Those of `champions` stay, of versions on trial and of players of open matches.
        Raises `Unavailable`. Cancellation: as `set_status`.
        """
        playing = {player.version for _, board in self.gate.boards.values() for player in board.terms.players}
        settled = [
            candidate.version
            for candidate in self.candidates()
            if candidate.status.settled
            and candidate.status is not CandidateStatus.TRIAL
            and candidate.version not in champions
            and candidate.version not in playing
        ]
        old = settled[:-MOST_SETTLED]
        if len(old) < DROPPED_AT_ONCE:
            return []
        crash_point("gatekeeper_before_drop")
        await self._commit(events.Dropped(versions=tuple(old)))
        crash_point("gatekeeper_after_drop")
        return old

    def _superseded(self, version: int) -> Candidate:
        reason = (
            f"decided long ago: up to version {self.gate.dropped_through} only the verdicts on champions are kept; "
            "promote it by hand if it should play"
        )
        return Candidate(self.model, version, CandidateStatus.SUPERSEDED, reason=reason)

    def boards(self, purpose: Purpose) -> list[Scoreboard]:
        """Return the boards of the open matches with that purpose."""
        return [board for kind, board in self.gate.boards.values() if kind == purpose]

    def games_between(self, first: str, second: str) -> int:
        """Return the rated games of closed matches between two players, named in that order."""
        return self.gate.games_between(first, second)

    async def _commit(self, event: Event, *, is_due: Callable[[], bool] = lambda: True) -> None:
        """Write an event and fold it. `is_due` is called when its turn has come: an event before it may have made it void."""
        async with self._commits:
            if not is_due():
                return
            try:
                await self._disk.commit(lambda: self._journal.append(event), lambda _: self._announce(event))
                if self._journal.size_bytes > self._compacted_above_bytes:
                    await self._disk.run(self._compact_if_possible)
            except StaleEpoch:
                self._lost_lease.set()
                raise

    def _compact_if_possible(self) -> None:
        """Compact the journal; an error of the disk leaves it as it is, for a later attempt. Raises `StaleEpoch`."""
        size_bytes = self._journal.size_bytes
        self._compacted_above_bytes = size_bytes + COMPACTION_BYTES
        try:
            self._compact()
        except Unavailable as error:
            log.warning("journal.not_compacted", error=str(error), advice="it is retried when the journal has grown further")
        else:
            log.info("journal.compacted", size_bytes=size_bytes, left_bytes=self._journal.size_bytes)

    def _compact(self) -> None:
        """Replace the journal by events that fold into the present state. Raises `StaleEpoch`, `Unavailable`."""
        self._journal.rewrite(self.gate.present())
        self._compacted_above_bytes = max(COMPACTION_BYTES, COMPACTION_FACTOR * self._journal.size_bytes)

    def _announce(self, event: Event) -> None:
        self._fold(event)
        if isinstance(event, events.Submitted | events.StatusChanged):
            self._export_queue()
        self.changed.set()
        self.changed = asyncio.Event()

    def _export_queue(self) -> None:
        """Export the length of the queue: at each change, since the arbiter looks at it between two matches only."""
        metrics.GATE_QUEUE.set(sum(one.status is CandidateStatus.QUEUED for one in self.gate.candidates.values()))

    def _fold(self, event: Event, *, is_moot: bool = False) -> None:
        changed = self.gate.fold(event, is_moot=is_moot)
        if isinstance(event, events.Dropped):
            for version in event.versions:
                self._changes.pop(version, None)
        if changed is not None:
            self._newest_change += 1
            self._changes.pop(changed.version, None)
            self._changes[changed.version] = self._newest_change
