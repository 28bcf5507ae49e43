"""Mode watch over whole runs: true strengths in place of networks, simulated pairs in place of games, the gatekeeper itself."""

import asyncio

import numpy as np
import pytest
from portless import MODEL, Portless

from benchmarks.gate_simulation import DECISIVE, DRAWISH, tilted
from gatekeeper.arbiter import Arbiter
from gatekeeper.referee import ChampionChanged
from gatekeeper.watch import Watch
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets import GateSettings
from zerofleet.strength.matches import Decision
from zerofleet.strength.ratings import PENTANOMIAL_SCORES, Sprt, Verdict, share_from_elo

GATE = GateSettings()
TEST = Sprt(GATE.watch_elo0, GATE.watch_elo1, GATE.alpha, GATE.beta)
SEEDS = range(2)


class StrengthReferee:
    """Decides by simulated pairs; `strengths` are the true ones by version. A measurement ends when it is permitted."""

    def __init__(self, strengths, field, seed):
        self.strengths, self.field, self.rng = strengths, field, np.random.default_rng(seed)
        self.permits, self.measuring, self.verdicts = asyncio.Semaphore(0), 0, []
        self.news = asyncio.Event()

    async def play(self, version, champion, evaluator, *, opponent):
        return self._decide(version, opponent.version)

    async def measure(self, champion, reference, evaluator, *, valid):
        self.measuring = champion.version
        self.news.set()
        await self.permits.acquire()
        if not valid():
            raise ChampionChanged
        decision = self._decide(champion.version, reference)
        self.verdicts.append((champion.version, reference, decision))
        return decision

    def _decide(self, version, other):
        field = tilted(self.field, share_from_elo(self.strengths[version] - self.strengths[other]))
        pairs = self.rng.choice(5, size=GATE.max_pairs, p=field)
        counts = np.cumsum(np.eye(5)[pairs], axis=0)
        for evidence in TEST.evidence(counts, PENTANOMIAL_SCORES):
            if (verdict := TEST.verdict(float(evidence))) is not Verdict.CONTINUE:
                return Decision(verdict is Verdict.STRONGER, verdict.value)
        return Decision(False, "undecided", undecided=True)

    def trial_of(self, version):
        return None

    def report_of(self, version):
        return None


class Run(Portless):
    """A gatekeeper in mode watch whose candidates come one after the other."""

    def __init__(self, root, models, inference, referee):
        super().__init__(root, models, inference, referee)
        self.models, self.referee = models, referee
        self._fold, self.ledger._fold = self.ledger._fold, self._fold_and_tell
        self.arbiter, self.watch = Arbiter(self.crew, mode="watch"), Watch(self.crew)

    def _fold_and_tell(self, event):
        self._fold(event)
        self.referee.news.set()

    @property
    def strength(self):
        return self.referee.strengths[self.pointer.champion.version]

    def status(self, version):
        return self.ledger.candidate(version).status

    def waiting_for_a_verdict(self):
        """Whether the watch plays and the arbiter has nothing that it may decide."""
        trials = [c.version for c in self.ledger.candidates() if c.status is CandidateStatus.TRIAL]
        if trials and self.referee.measuring not in trials:
            return False
        return not self.ledger.unsettled() or self.arbiter._next() is None

    async def until(self, holds):
        """Return when `holds()` is true; looked at whenever the ledger changes or a measurement begins."""
        while not holds():
            self.referee.news.clear()
            await self.referee.news.wait()

    async def play(self, candidates, *, candidates_per_verdict):
        """Submit the candidates; returns the strength of the champion after each."""
        strengths = []
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(self.arbiter.run()), group.create_task(self.watch.run())]
            for number in range(1, candidates + 1):
                await self.arbiter.submit(*self.models.publish())
                await self.until(self.waiting_for_a_verdict)
                trial = self.referee.measuring
                if number % candidates_per_verdict == 0 and trial and self.status(trial) is CandidateStatus.TRIAL:
                    self.referee.permits.release()
                    await self.until(lambda trial=trial: self.status(trial) is not CandidateStatus.TRIAL)
                    await self.until(self.waiting_for_a_verdict)
                strengths.append(self.strength)
            for task in work:
                task.cancel()
        self.close()
        return strengths


@pytest.fixture
def play(tmp_path, fakes):
    """Return a function that plays a run of candidates with these strengths: (run, strength of the champion over time)."""

    async def run(strengths, seed, *, field=DRAWISH, candidates_per_verdict=2):
        models, inference = fakes[0](tmp_path / str(seed) / "models"), fakes[1]()
        (tmp_path / str(seed) / "models" / MODEL).mkdir(parents=True, exist_ok=True)
        referee = StrengthReferee(dict(enumerate(strengths, 1)), field, seed)
        played = Run(tmp_path / str(seed), models, inference, referee)
        return played, await played.play(len(strengths), candidates_per_verdict=candidates_per_verdict)

    return run


@pytest.mark.slow
async def test_equal_versions_are_rolled_back_no_more_often_than_the_error_rate(play):
    verdicts = []
    for seed in SEEDS:
        run, _ = await play([0.0] * 30, seed, candidates_per_verdict=1)
        verdicts += run.referee.verdicts
    weaker = sum(not decision.first_wins and not decision.undecided for _, _, decision in verdicts)
    expected = GATE.beta * len(verdicts)
    assert len(verdicts) > 40
    assert weaker <= expected + 3.0 * expected**0.5


@pytest.mark.slow
async def test_a_learner_that_improves_is_never_held_up(play):
    for seed in SEEDS:
        run, strengths = await play([25.0 * i for i in range(30)], seed)
        assert strengths == [25.0 * i for i in range(30)]
        assert CandidateStatus.WEAKER not in {run.status(version) for version in range(1, 31)}


@pytest.mark.slow
async def test_after_a_collapse_two_verdicts_bring_the_last_good_version_back_and_it_stays(play):
    for seed in SEEDS:
        run, strengths = await play([10.0 * i for i in range(10)] + [-300.0] * 20, seed)
        lasting = strengths.index(-300.0)
        back = next(i for i in range(lasting, 30) if strengths[i] >= 0.0)
        assert min(strengths[back:]) >= 0.0
        bad = [version for version, _, _ in run.referee.verdicts if run.referee.strengths[version] < 0.0]
        assert len(bad) <= 2
        assert [c.version for c in run.pointer.history].count(run.pointer.champion.version) == 2  # promoted, returned to


@pytest.mark.slow
async def test_a_learner_that_recovers_is_promoted_again(play):
    for seed in SEEDS:
        _, strengths = await play([0.0] * 4 + [-300.0] * 8 + [100.0 + 25.0 * i for i in range(12)], seed)
        assert strengths[-1] == 100.0 + 25.0 * 11


@pytest.mark.slow
@pytest.mark.parametrize("field", [DRAWISH, DECISIVE], ids=["drawish", "decisive"])
async def test_small_losses_add_up_until_they_are_found(play, field):
    """A learner that loses 20 Elo a version would end 580 Elo down without a gate."""
    for seed in SEEDS:
        _, strengths = await play([-20.0 * i for i in range(30)], seed, field=field)
        assert strengths[-1] >= -200.0


@pytest.mark.slow
async def test_no_version_found_weaker_plays_again(play):
    for seed in SEEDS:
        rng = np.random.default_rng(100 + seed)
        run, _ = await play(list(rng.normal(0.0, 80.0, size=30)), seed)
        versions = [champion.version for champion in run.pointer.history]
        for version in range(1, 31):
            if run.status(version) is CandidateStatus.WEAKER:
                assert versions.count(version) == 1
                assert run.pointer.champion.version != version
