"""The gatekeeper against a model of it: whatever is submitted, promoted, rolled back, killed or stolen, in any order."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from portless import MODEL, Portless

from gatekeeper.arbiter import Arbiter
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, StaleEpoch
from zerofleet.strength.matches import Decision

STRONG, WEAK, DAMAGED, UNLOADABLE = "strong", "weak", "damaged", "unloadable"
KINDS = st.sampled_from([STRONG, WEAK, DAMAGED, UNLOADABLE])


class KnowingReferee:
    """Knows who is strong without playing."""

    def __init__(self, kinds):
        self.kinds = kinds

    async def play(self, version, champion, evaluator, *, opponent):
        return Decision(self.kinds[version] == STRONG, self.kinds[version])

    def report_of(self, version):
        return None


class Process(Portless):
    """One process of a gatekeeper."""

    def __init__(self, root, models, inference, kinds):
        super().__init__(root, models, inference, KnowingReferee(kinds))
        self.arbiter = Arbiter(self.crew, mode="sprt")

    async def decide_everything(self):
        work = asyncio.ensure_future(self.arbiter.run())
        await self.arbiter.idle.wait()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


class Promotion(RuleBasedStateMachine):
    make_models = make_inference = None

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        self.runner = asyncio.Runner()
        self.models, self.inference = self.make_models(self.root / "models"), self.make_inference()
        self.kinds, self.statuses, self.line, self.changes = {}, {}, [], 0
        self.process = self.open()

    def open(self):
        return Process(self.root, self.models, self.inference, self.kinds)

    def run(self, work):
        return self.runner.run(work)

    def publish(self, kind):
        version, sha256 = self.models.publish()
        self.kinds[version] = kind
        if kind == DAMAGED:
            self.models.damage(version)
        if kind == UNLOADABLE:
            self.inference.broken.add(version)
        return version, sha256

    def crown(self, version):
        self.line.append(version)
        self.changes += 1

    @rule(kinds=st.lists(KINDS, min_size=1, max_size=4), dies=st.booleans())
    def submit(self, kinds, dies):
        offers = [self.publish(kind) for kind in kinds]
        for version, sha256 in offers:
            candidate = self.run(self.process.arbiter.submit(version, sha256))
            assert candidate.status is CandidateStatus.QUEUED
        if dies:
            self.restart()
        self.run(self.process.decide_everything())
        self.expect_newest_first([version for version, _ in offers])

    def expect_newest_first(self, versions):
        while versions:
            version = versions.pop()
            kind = self.kinds[version]
            if kind == DAMAGED:
                self.statuses[version] = CandidateStatus.BROKEN
                continue
            self.statuses |= dict.fromkeys(versions, CandidateStatus.SUPERSEDED)
            if kind == UNLOADABLE:
                self.statuses[version] = CandidateStatus.BROKEN
            elif kind == STRONG or not self.line:
                self.statuses[version] = CandidateStatus.PROMOTED
                self.crown(version)
            else:
                self.statuses[version] = CandidateStatus.REJECTED
            return

    @precondition(lambda self: self.statuses)
    @rule(data=st.data(), honest=st.booleans())
    def submit_again(self, data, honest):
        version = data.draw(st.sampled_from(sorted(self.statuses)))
        sha256 = self.models.store.manifest_sha256(MODEL, version) if honest else "ab" * 32
        if honest:
            assert self.run(self.process.arbiter.submit(version, sha256)).status is self.statuses[version]
        else:
            with pytest.raises(InvalidRequest):
                self.run(self.process.arbiter.submit(version, sha256))

    @precondition(lambda self: self.kinds)
    @rule(data=st.data())
    def promote(self, data):
        version = data.draw(st.sampled_from(sorted(self.kinds)))
        if self.line and self.line[-1] == version:
            assert self.run(self.process.arbiter.promote(version, reason="")).version == version
        elif self.kinds[version] in (DAMAGED, UNLOADABLE):
            with pytest.raises(CorruptModel):
                self.run(self.process.arbiter.promote(version, reason=""))
        else:
            self.run(self.process.arbiter.promote(version, reason="by hand"))
            self.crown(version)
            self.statuses[version] = CandidateStatus.PROMOTED

    @rule()
    def promote_what_is_not_there(self):
        with pytest.raises(ModelNotFound):
            self.run(self.process.arbiter.promote(len(self.kinds) + 1, reason=""))

    @rule(reason=st.sampled_from(["", "worse", "rollback"]))
    def roll_back(self, reason):
        if len(self.line) < 2:
            with pytest.raises(ModelNotFound):
                self.run(self.process.arbiter.rollback(reason=reason))
            return
        self.line.pop()
        self.changes += 1
        assert self.run(self.process.arbiter.rollback(reason=reason)).version == self.line[-1]

    @rule()
    def restart(self):
        self.process.close()
        self.process = self.open()

    @rule()
    def be_replaced_while_asleep(self):
        sleeper = self.process
        (self.root / "models" / MODEL / ".gatekeeper.lock").unlink()
        self.process = self.open()
        version, sha256 = self.publish(STRONG)
        with pytest.raises(StaleEpoch):
            self.run(sleeper.arbiter.promote(version, reason=""))
        sleeper.close()
        self.run(self.process.arbiter.submit(version, sha256))
        self.run(self.process.decide_everything())
        self.expect_newest_first([version])

    @invariant()
    def the_pointer_names_the_last_of_the_line(self):
        stored = self.models.store.champion(MODEL)
        assert stored == self.process.pointer.champion
        assert (stored.version if stored else None) == (self.line[-1] if self.line else None)
        if stored is not None:
            self.models.store.verify(MODEL, stored.version)

    @invariant()
    def epochs_grow_with_every_change_and_only_then(self):
        epochs = [champion.epoch for champion in self.models.store.history(MODEL)]
        assert len(epochs) == self.changes
        assert epochs == sorted(set(epochs))

    @invariant()
    def every_candidate_stands_where_the_model_says(self):
        stands = {c.version: c.status for c in self.process.ledger.candidates()}
        assert stands == self.statuses

    def teardown(self):
        self.process.close()
        self.runner.close()
        self.directory.cleanup()


@pytest.mark.slow
def test_no_order_of_events_breaks_promotion(fakes):
    class Bound(Promotion):
        make_models, make_inference = fakes

    run_state_machine_as_test(
        Bound,
        settings=settings(
            max_examples=8, stateful_step_count=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
        ),
    )
