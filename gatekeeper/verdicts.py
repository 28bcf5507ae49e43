"""Verdicts: notes the status of a candidate, and closes its match."""

from __future__ import annotations

import structlog

from gatekeeper.ledger import Ledger
from gatekeeper.referee import Referee
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.storage.crash_points import crash_point
from zerofleet.telemetry import metrics, tracing

__all__ = ["Verdicts"]

LONGEST_REASON = 2_000  # characters

log = structlog.get_logger()


class Verdicts:
    """Verdicts on the candidates of one model, in the ledger."""

    def __init__(self, ledger: Ledger, referee: Referee) -> None:
        self._ledger = ledger
        self._referee = referee

    async def settle(self, version: int, status: CandidateStatus, reason: str) -> None:
        """Record the verdict on a candidate, and close its match unless the match is still to be played.

        Raises `Unavailable`. Cancellation: the verdict is recorded, or no effect; the match is closed at the next start.
        """
        reason = reason[:LONGEST_REASON].encode(errors="backslashreplace").decode()
        report = self._referee.report_of(version)
        await self._ledger.set_status(version, status, reason=reason, report=report)
        crash_point("gatekeeper_after_verdict")
        metrics.GATE_VERDICTS.labels(verdict=status.value).inc()
        log.info("candidate.settled", version=version, status=status.value, reason=reason)
        tracing.note(status=status.value)
        if status is not CandidateStatus.TRIAL:
            await self.close_matches(version, rated=status is CandidateStatus.PROMOTED)

    async def close_matches(self, version: int, *, rated: bool) -> None:
        """Close a candidate's matches. Raises as `settle`.

        With `rated`, those that it has won count for the ladder, up to their decision. One that was broken off never counts: an
        operator may have chosen the moment by its results.
        """
        for board in self._ledger.boards("gate"):
            if board.terms.players[0].version == version:
                rated_groups = self._referee.groups_of_win(board) if rated else 0
                await self._ledger.close_match(board.terms.match_id, rated_groups=rated_groups)

    async def tidy_up(self) -> None:
        """Close the matches of settled candidates that a killed process left open. Raises and cancels as `settle`."""
        for candidate in self._ledger.candidates():
            if candidate.status.settled and candidate.status is not CandidateStatus.TRIAL:
                await self.close_matches(candidate.version, rated=candidate.status is CandidateStatus.PROMOTED)
