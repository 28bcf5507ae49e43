"""Watch: measures champions that were promoted at once, and rolls back those found weaker.

    trial ──► promoted     not weaker: confirmed, the reference of later measurements
      │─────► weaker       rolled back to the last confirmed champion; never promoted again by the gate
      └─────► unproven     undecided at the last pair, or replaced or rolled back before the test decided

One version is measured at a time, against the last confirmed champion, by the pairs and the test of the gate, within a share of
all evaluations (`pacing`). A newer champion does not end the measurement: if it did, no version would ever be measured while
candidates come faster than verdicts. When the measured version proves weaker and a newer one plays already, candidates wait
until that champion is measured too: it stays if it recovered, and is rolled back otherwise. After a rollback candidates must
pass the test before their promotion, until one does. So a champion plays on only while no completed test found it, or the
version before it, weaker than the last confirmed one, and two versions never take turns.

Every step is repeatable: the results are in the ledger, the verdict follows from them, and after a crash between the write of
the pointer and the note of the verdict both are derived again.
"""

from __future__ import annotations

from typing import TypeGuard

import structlog

from gatekeeper.arbiter import AT_ONCE
from gatekeeper.crew import Crew, new_backoff
from gatekeeper.evaluation import BrokenVersion
from gatekeeper.referee import ChampionChanged
from zerofleet.contracts.lineage import ROLLBACK, line_of
from zerofleet.contracts.promotions import CandidateStatus, Champion
from zerofleet.errors import Overloaded, StaleEpoch, Unavailable, first_error
from zerofleet.storage.crash_points import crash_point
from zerofleet.strength.matches import Decision

__all__ = ["Watch"]

log = structlog.get_logger()


class Watch:
    """Measurements of one model's champions."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._backoff = new_backoff()

    async def run(self) -> None:
        """Measure versions on trial until cancelled. Raises `StaleEpoch` when another gatekeeper has taken over.

        Cancellation: a measurement in progress resumes at the next start.
        """
        while True:
            changed = self._crew.ledger.changed
            version = self._next()
            if version is None:
                await changed.wait()
                continue
            try:
                await self._attend(version)
            except StaleEpoch:
                raise
            except Exception as failure:  # the loop goes on without its measurements, and they resume
                error = first_error(failure)
                if isinstance(error, StaleEpoch):
                    raise error from failure
                foreseen = isinstance(error, Unavailable | Overloaded)
                log.warning("measurement.delayed", version=version, error=str(error), exc_info=None if foreseen else failure)
                await self._backoff.pause()
            else:
                self._backoff.reset()

    def _next(self) -> int | None:
        """Return the next version on trial: one whose measurement has begun, else the oldest."""
        trials = [c.version for c in self._crew.ledger.candidates() if c.status is CandidateStatus.TRIAL]
        begun = [version for version in trials if self._crew.referee.trial_of(version) is not None]
        return next(iter(begun or trials), None)

    async def _attend(self, version: int) -> None:
        """Measure a version, or settle it without a verdict when that has become pointless. Raises errors of the evaluator."""
        champion, trial = self._promotion_of(version), self._crew.referee.trial_of(version)
        if _is_by_hand(champion):  # and the verdict was not noted
            await self._settle(version, CandidateStatus.PROMOTED, champion.reason)
        elif trial is not None and trial[1] is not None:
            await self._conclude(version, trial[1])
        elif champion is None:
            await self._settle(version, CandidateStatus.UNPROVEN, "rolled back before it was measured")
        elif trial is not None:
            await self._measure(champion, trial[0])
        elif self._crew.pointer.champion is not None and self._crew.pointer.champion.version != version:
            reason = f"version {self._crew.pointer.champion.version} replaced it before it was measured"
            await self._settle(version, CandidateStatus.UNPROVEN, reason)
        elif (reference := self._crew.confirmed) is None:
            await self._settle(version, CandidateStatus.UNPROVEN, "no confirmed champion to measure it against")
        else:
            await self._measure(champion, reference.version)

    async def _measure(self, champion: Champion, reference: int) -> None:
        """Play the rest of a measurement and carry out its verdict."""
        version = champion.version
        try:
            async with self._crew.serving.including(version, reference):
                decision = await self._crew.referee.measure(
                    champion, reference, self._crew.evaluator, valid=lambda: self._on_trial(version)
                )
        except ChampionChanged:
            if not self._is_trial(version):  # else the next turn settles it
                await self._crew.verdicts.close_matches(version, rated=False)
        except BrokenVersion as error:
            if error.version != version:
                raise Unavailable(f"reference {reference} returns invalid evaluations ({error})") from error
            await self._withdraw(version, CandidateStatus.BROKEN, str(error))
        else:
            await self._conclude(version, decision)

    async def _conclude(self, version: int, decision: Decision) -> None:
        if not self._is_trial(version):  # promoted by hand meanwhile
            await self._crew.verdicts.close_matches(version, rated=False)
        elif decision.undecided:
            await self._settle(version, CandidateStatus.UNPROVEN, decision.reason)
        elif decision.first_wins:
            await self._settle(version, CandidateStatus.PROMOTED, decision.reason)
        else:
            await self._withdraw(version, CandidateStatus.WEAKER, decision.reason)

    async def _withdraw(self, version: int, status: CandidateStatus, reason: str) -> None:
        """Return to the last confirmed champion if the version still plays, then note the verdict."""
        async with self._crew.pointer.command():
            if not self._is_trial(version):  # promoted by hand while the command was awaited
                return
            champion, back = self._crew.pointer.champion, self._crew.confirmed
            if champion is not None and champion.version == version and back is not None:
                crash_point("gatekeeper_before_rollback")
                await self._crew.promoter.crown(back.version, reason=f"{ROLLBACK} from {version}: {reason}")
        crash_point("gatekeeper_after_rollback")
        await self._settle(version, status, reason)

    async def _settle(self, version: int, status: CandidateStatus, reason: str) -> None:
        await self._crew.verdicts.settle(version, status, reason)

    def _promotion_of(self, version: int) -> Champion | None:
        """Return the version as it was promoted, None when it was rolled back since."""
        return next((c for c in reversed(line_of(self._crew.pointer.history)) if c.version == version), None)

    def _on_trial(self, version: int) -> bool:
        return self._is_trial(version) and self._promotion_of(version) is not None

    def _is_trial(self, version: int) -> bool:
        """Return whether a measurement decides on the version: a promotion by hand has, before its verdict is noted."""
        candidate = self._crew.ledger.candidate(version)
        is_trial = candidate is not None and candidate.status is CandidateStatus.TRIAL
        return is_trial and not _is_by_hand(self._promotion_of(version))


def _is_by_hand(promotion: Champion | None) -> TypeGuard[Champion]:
    """Return whether a version on trial was promoted again, by hand."""
    return promotion is not None and not promotion.reason.startswith(AT_ONCE)
