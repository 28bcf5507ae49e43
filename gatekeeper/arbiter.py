"""Arbiter: accepts candidates, decides one at a time, and carries out promotions and rollbacks.

    submitted ──► queued ──► playing ──► promoted | rejected
                    │           └──────► broken            failed checks or loading, or invalid evaluations
                    ├──────────────────► broken
                    ├──────────────────► superseded        a newer candidate was queued when its turn came
                    └──────────────────► trial             mode watch: promoted at once, see `watch`

The newest candidate is decided first and supersedes all older ones: the loop learns from the latest network. A match in
progress is played to its end, across restarts of this process and of the inference server. An unreachable server, a full
disk or a wrong token do not affect the verdict: the arbiter waits and retries. Any other failure is retried a few times; if
the champion is still served then, the candidate is broken. No candidate can stop the service.

A champion that was never trained has nothing to defend: the first trained candidate replaces it without a match. In mode
`watch` a candidate is promoted without a match too, unless a version was found weaker and none confirmed since.

On every path a version becomes champion only after an inference server has loaded it, which tests its output for the golden
positions; or after an operator has accepted the risk.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

from gatekeeper.crew import Crew, new_backoff
from gatekeeper.evaluation import BrokenVersion, FailedVersion
from gatekeeper.promoter import untrained
from gatekeeper.referee import ChampionChanged
from zerofleet.contracts.lineage import ROLLBACK, holds_candidates, previous_version
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
    first_error,
)
from zerofleet.storage.crash_points import crash_point
from zerofleet.strength.matches import Decision
from zerofleet.telemetry import metrics, tracing

__all__ = ["Arbiter"]

MOST_FAILURES = 8
"""Failures of unknown cause after which a candidate is broken; with the pauses between them they take about 20 s."""
AT_ONCE = "promoted at once"
"""Prefix of the reason of a version that is measured after its promotion."""

# Transient failures and those an operator can repair; none is a fault of the candidate.
PASSING = (Unavailable, Overloaded, PermissionRefused, ModelNotFound, ConfigurationError, OSError, MemoryError)

log = structlog.get_logger()


class Arbiter:
    """Decides on the candidates of one model."""

    def __init__(self, crew: Crew, *, mode: str) -> None:
        self._crew = crew
        self._mode = mode
        self._model = crew.ledger.model
        self._backoff = new_backoff()
        self._traces: dict[int, str] = {}
        """Trace context of each unsettled candidate's submission, by version; not kept over a restart."""
        self._failures: Counter[int] = Counter()
        """Failures of unknown cause, by unsettled candidate; not kept over a restart."""
        self.idle = asyncio.Event()
        """Set while no candidate waits for a decision."""

    async def submit(self, version: int, manifest_sha256: str) -> Candidate:
        """Accept a candidate and return its status; idempotent.

        Raises `ModelNotFound` for a version that is not stored, `InvalidRequest` for a different manifest, `CorruptModel`
        for an unreadable one, `Unavailable`. Cancellation: the candidate is either accepted or unknown.
        """
        stored = await self._crew.promoter.manifest_sha256(version)
        if stored != manifest_sha256:
            raise InvalidRequest(
                f"version {version} of {self._model} is stored with manifest {stored[:16]}…, "
                f"offered with {manifest_sha256[:16] or 'none'}…; send the sha256 of its manifest.json"
            )
        try:
            candidate = await self._crew.ledger.submit(version, manifest_sha256)
        except StaleEpoch as error:
            raise Unavailable(f"{error}; submit version {version} again") from error
        if not candidate.status.settled:
            if traceparent := tracing.traceparent():
                self._traces[version] = traceparent
            self.idle.clear()
        log.info("candidate.offered", version=version, status=candidate.status)
        return candidate

    async def promote(self, version: int, *, reason: str, without_self_test: bool = False) -> Champion:
        """Make a version the champion regardless of its results; no effect on a champion that is confirmed.

        A champion on trial, or without a verdict, is written again with the operator's reason, which confirms it.
        `without_self_test` accepts a version that no inference server has loaded while none is reachable; the stored reason
        notes it. A reason that begins as those of rollbacks or of promotions at once is stored after "by hand". Raises
        `ModelNotFound`, `CorruptModel`, `StaleEpoch`, `Unavailable`.
        Cancellation: the promotion is either complete and announced or has no effect.
        """
        async with self._crew.pointer.command():
            champion, confirmed = self._crew.pointer.champion, self._crew.confirmed
            if champion is not None and confirmed is not None and champion.version == version == confirmed.version:
                return champion
            reason = f"by hand: {reason}" if reason.startswith((ROLLBACK, AT_ONCE)) else reason or "promoted by hand"
            champion = await self._crew.promoter.crown(version, reason=reason, without_self_test=without_self_test)
        try:
            known = self._crew.ledger.candidate(version)
            report = None if known is None else known.match
            await self._crew.ledger.set_status(version, CandidateStatus.PROMOTED, reason=champion.reason, report=report)
            await self._crew.verdicts.close_matches(version, rated=False)
        except (Unavailable, StaleEpoch) as error:  # the promotion itself is complete
            log.warning("promotion.not_noted", version=version, error=str(error))
        return champion

    async def rollback(self, *, reason: str) -> Champion:
        """Make the previous champion the champion again. Raises as `promote`. Cancellation: as `promote`."""
        async with self._crew.pointer.command():
            version = previous_version(self._crew.pointer.history)
            return await self._crew.promoter.crown(version, reason=f"{ROLLBACK}: {reason}" if reason else ROLLBACK)

    async def run(self) -> None:
        """Decide on candidates until cancelled. Raises `StaleEpoch` when another gatekeeper has taken over.

        Cancellation: a match in progress resumes at the next start.
        """
        await self._tidy_up()
        if self._crew.ledger.unsettled():
            self.idle.clear()
        while True:
            changed = self._crew.ledger.changed
            version = self._next()
            if version is None:
                await self._rest(changed)
                continue
            try:
                with tracing.follow("gate", parent=self._traces.get(version, ""), version=version):
                    await self._attempt(version)
            except PASSING as error:
                log.warning("decision.delayed", version=version, error=str(error))
                await self._backoff.pause()
            else:
                self._backoff.reset()

    async def _tidy_up(self) -> None:
        """Close the matches of settled candidates, with retries while the journal cannot be written."""
        while True:
            try:
                await self._crew.verdicts.tidy_up()
                return
            except PASSING as error:
                log.warning("gate.not_tidied", error=str(error), advice="it is retried")
            await self._backoff.pause()

    def _next(self) -> int | None:
        """Return the next candidate: one whose match has begun, else the newest; None while none may be decided."""
        candidates = self._crew.ledger.candidates()
        waiting = [candidate for candidate in candidates if not candidate.status.settled]
        holds = self._mode == "watch" and holds_candidates(self._crew.pointer.history, candidates)
        metrics.GATE_HOLDS.set(holds)
        if not waiting or (holds and self._champion_on_trial()):
            return None
        begun = [candidate for candidate in waiting if candidate.status is CandidateStatus.PLAYING]
        return (begun or waiting)[-1].version

    def _champion_on_trial(self) -> bool:
        champion = self._crew.pointer.champion
        known = self._crew.ledger.candidate(champion.version) if champion else None
        return known is not None and known.status is CandidateStatus.TRIAL

    async def _rest(self, changed: asyncio.Event) -> None:
        """Wait for a change of the ledger: a candidate, or the end of a measurement that candidates wait for."""
        if not self._crew.ledger.unsettled():
            self.idle.set()
        await changed.wait()

    async def _attempt(self, version: int) -> None:
        """Decide on a candidate; settle it as broken after repeated failures. Raises `PASSING` errors and `StaleEpoch`."""
        try:
            await self._decide(version)
        except Exception as failure:
            error = first_error(failure)
            if isinstance(error, (*PASSING, StaleEpoch)):
                raise error from failure
            self._failures[version] += 1
            log.exception("decision.failed", version=version, failures=self._failures[version])
            text = f"{type(error).__name__}: {error}"
            own = not isinstance(error, FailedVersion) or error.version == version
            if not own or self._failures[version] < MOST_FAILURES or not await self._serves_champion():
                raise Unavailable(f"deciding on version {version} failed ({text})") from failure
            await self._settle(version, CandidateStatus.BROKEN, text)

    async def _serves_champion(self) -> bool:
        """Return whether the inference server has the champion; false when it is unreachable."""
        try:
            return await self._crew.serving.has_champion()
        except ZerofleetError:
            return False

    async def _decide(self, version: int) -> None:
        """Settle one candidate, or return it to the queue. Raises `PASSING` errors."""
        champion = self._crew.pointer.champion
        if champion is not None and version <= champion.version:
            await self._settle_outrun(version, champion)
            return
        if any(version == former.version for former in self._crew.pointer.history):  # its verdict could not be noted
            await self._settle(
                version, CandidateStatus.REJECTED, "rolled back or replaced before; promote it by hand if that was an error"
            )
            return
        try:
            manifest = await self._crew.promoter.check(version)
        except (CorruptModel, ModelNotFound) as error:
            await self._settle(version, CandidateStatus.BROKEN, str(error))
            return
        await self._give_up_older(version, champion)
        try:
            await self._judge(manifest, champion)
        except ChampionChanged:
            await self._requeue(version)
        except BrokenVersion as error:
            if error.version != version:  # not the candidate's fault, and no evidence for a promotion either
                raise Unavailable(f"champion {error.version} returns invalid evaluations ({error}); roll back") from error
            await self._settle(version, CandidateStatus.BROKEN, str(error))
        except CorruptModel as error:
            await self._require_others(version)
            await self._settle(version, CandidateStatus.BROKEN, str(error))

    async def _require_others(self, version: int) -> None:
        """Raise `Unavailable` unless the server can load the wanted versions without a candidate: it is not at fault then."""
        try:
            await self._crew.serving.apply()
        except (CorruptModel, ModelNotFound) as error:
            raise Unavailable(
                f"the inference server cannot load the versions beside candidate {version} ({error}); restore the files, roll "
                "back, or take the version out of the pinned ones"
            ) from error

    async def _judge(self, manifest: Manifest, champion: Champion | None) -> None:
        """Load a verified candidate, measure it if that must come first, and promote or reject it."""
        version = manifest.version
        async with self._crew.serving.including(version):
            at_once = await self._exemption(manifest, champion)
            if at_once is not None or champion is None:
                decision = Decision(True, at_once or "first champion")
            else:
                await self._crew.ledger.set_status(version, CandidateStatus.PLAYING)
                decision = await self._match(version, champion)
            if decision.first_wins:
                await self._succeed(version, champion, decision.reason)
            crash_point("gatekeeper_before_verdict")
            status = _promoted(decision.reason) if decision.first_wins else CandidateStatus.REJECTED
            await self._settle(version, status, decision.reason)

    async def _exemption(self, manifest: Manifest, champion: Champion | None) -> str | None:
        """Return the reason to promote a candidate without a match, None when it must play one. Raises `ModelNotFound`."""
        if champion is None:
            return "first champion"
        if self._mode == "off":
            return "promoted without a match"
        if not untrained(manifest) and await self._crew.promoter.is_untrained(champion.version):
            return f"trained ({manifest.train_steps:,} steps), and champion {champion.version} never was: no match needed"
        if self._mode != "watch" or holds_candidates(self._crew.pointer.history, self._crew.ledger.candidates()):
            return None
        confirmed = self._crew.confirmed
        return f"{AT_ONCE}, measured against version {confirmed.version} afterwards" if confirmed else None

    async def _match(self, version: int, champion: Champion) -> Decision:
        """Play a candidate against the champion. The thousands of evaluations of a match are not traced."""
        with tracing.child("gate.match", version=version, champion=champion.version):
            with tracing.paused():
                opponent = self._opponent(champion)
                async with self._crew.serving.including(opponent.version):
                    decision = await self._crew.referee.play(version, champion, self._crew.evaluator, opponent=opponent)
            tracing.note(passes=decision.first_wins, reason=decision.reason)
            if (report := self._crew.referee.report_of(version)) is not None:
                tracing.note(wins=report.wins, draws=report.draws, losses=report.losses, llr=report.log_likelihood_ratio)
        return decision

    def _opponent(self, champion: Champion) -> Champion:
        """Return the champion a candidate must beat: in mode `watch` the last confirmed one."""
        if self._mode != "watch":
            return champion
        return self._crew.confirmed or champion

    async def _succeed(self, version: int, champion: Champion | None, reason: str) -> None:
        """Promote a candidate, provided that the champion it was measured against still is champion."""
        async with self._crew.pointer.command():
            if self._crew.pointer.epoch != (champion.epoch if champion else 0):
                raise ChampionChanged
            crash_point("gatekeeper_before_promotion")
            with tracing.child("gate.promote", version=version):
                written = await self._crew.pointer.write(version, reason=reason)
                tracing.note(epoch=written.epoch, reason=reason)

    async def _requeue(self, version: int) -> None:
        """Queue a candidate again after the champion changed during its match, unless it is settled."""
        log.info("match.pointless", version=version)
        await self._crew.verdicts.close_matches(version, rated=False)
        candidate = self._crew.ledger.candidate(version)
        if candidate is not None and not candidate.status.settled:
            await self._crew.ledger.set_status(version, CandidateStatus.QUEUED)

    async def _give_up_older(self, version: int, champion: Champion | None) -> None:
        """Settle the candidates before a version; one that became the champion, whose verdict was lost, as that."""
        for older in self._crew.ledger.unsettled():
            if champion is not None and older == champion.version:
                await self._settle_outrun(older, champion)
            elif older < version:
                await self._settle(older, CandidateStatus.SUPERSEDED, f"version {version} came before its turn")

    async def _settle_outrun(self, version: int, champion: Champion) -> None:
        """Settle a candidate that is already the champion, or older than it."""
        if version == champion.version:
            await self._settle(version, _promoted(champion.reason), champion.reason)
        else:
            reason = f"version {champion.version}, which is newer, became champion first"
            await self._settle(version, CandidateStatus.REJECTED, reason)

    async def _settle(self, version: int, status: CandidateStatus, reason: str) -> None:
        """Record the verdict on a candidate, and close its match."""
        await self._crew.verdicts.settle(version, status, reason)
        if status is CandidateStatus.BROKEN and self._crew.pointer.champion is None:
            log.error(
                "gate.without_champion",
                version=version,
                reason=reason,
                advice="without a champion no games are played; mend the cause, or promote the version by hand",
            )
        self._traces.pop(version, None)
        self._failures.pop(version, None)


def _promoted(reason: str) -> CandidateStatus:
    """Return the status of a version promoted for `reason`."""
    return CandidateStatus.TRIAL if reason.startswith(AT_ONCE) else CandidateStatus.PROMOTED
