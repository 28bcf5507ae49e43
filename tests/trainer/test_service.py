"""The trainer as a whole in one loop, on fakes: first model, candidates, checkpoints, restart."""

from __future__ import annotations

import asyncio
import csv
import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog
import torch
from small_trainer import MODEL, TRAIN, settings_of

from trainer import service as service_module
from trainer.candidates import Submitter
from trainer.checkpoint import unpack
from trainer.checkpoint_files import load_latest
from trainer.history import FIGURES, open_history
from trainer.readers.processes import ReaderProcesses
from trainer.service import Conductor, make_intake, open_reader
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.contracts.promotions import Candidate, CandidateStatus
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    Diverged,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    RunDirectoryError,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
)
from zerofleet.search import EXTERNAL
from zerofleet.service.lifecycle import Service
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.streams import MemoryStream
from zerofleet.telemetry import metrics


class FakeGatekeeper:
    """Takes submissions after having been away for the first `failures` calls."""

    def __init__(self, failures=0, refusal=None):
        self.submitted = asyncio.Queue()
        self.failures = failures
        self.refusal = refusal

    async def submit(self, model, version, manifest_sha256):
        if self.failures:
            self.failures -= 1
            raise Unavailable("the gatekeeper is away")
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        self.submitted.put_nowait((version, manifest_sha256))
        return Candidate(model, version, CandidateStatus.QUEUED)


class RunningTrainer:
    """A trainer on fakes, inside the test's loop."""

    def __init__(self, settings, stream, gatekeeper):
        self.service = Service(settings)
        self.stream = stream
        self.gatekeeper = gatekeeper
        self.settings = settings

    async def __aenter__(self):
        game = self.settings.build_game()
        self.learner_thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self.intake_thread = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self.training = training = open_training(self.settings, game)
        rng = random.Random(0)
        submitter = Submitter(self.gatekeeper, training.store, MODEL, rng=rng)
        history = open_history(self.settings.run_dir / "metrics")
        conductor = Conductor(training, submitter, history, self.stream, self.learner_thread)
        self.reader = open_reader(training, torch.device("cpu"))
        self.intake = make_intake(
            training, self.stream, executor=self.intake_thread, rng=rng, on_samples=conductor.wake, reader=self.reader
        )
        self.task = asyncio.ensure_future(conductor.run(self.service, self.intake))
        return self

    async def __aexit__(self, *_):
        async with asyncio.timeout(60):
            self.service.stopping.set()
            if not self.task.done():
                await self.service.drain()
            try:
                await self.task
            finally:
                self.reader.close()
                self.training.replay.close()
                self.learner_thread.shutdown()
                self.intake_thread.shutdown()

    async def submitted(self):
        async with asyncio.timeout(60):
            return await self.gatekeeper.submitted.get()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(service_module, "CHUNK_S", 0.05)
    monkeypatch.setattr("trainer.candidates.FIRST_PAUSE_S", 0.001)


async def until(condition):
    """Let the trainer work until something is true that it tells nobody about."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def publish(stream, record, numbers):
    for number in numbers:
        await stream.publish(*record(number))


async def test_a_new_run_publishes_a_random_network_and_submits_it(tmp_path, game):
    async with RunningTrainer(settings_of(tmp_path), MemoryStream(), FakeGatekeeper()) as trainer:
        version, sha256 = await trainer.submitted()
        store = DirectoryStore(tmp_path / "models")
        assert version == 1
        assert sha256 == store.manifest_sha256(MODEL, 1)
        assert store.verify(MODEL, 1, game=game).train_steps == 0
        assert trainer.service.is_ready


async def test_samples_lead_to_steps_candidates_and_history(tmp_path, record, game):
    stream = MemoryStream()
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        await publish(stream, record, range(10))
        assert (await trainer.submitted())[0] == 2
        await publish(stream, record, range(10, 20))
        assert (await trainer.submitted())[0] == 3
        learner = trainer.training.learner
    manifest = trainer.training.store.verify(MODEL, 3, game=game)
    assert manifest.parent_version == 2
    assert manifest.train_steps > 0
    assert manifest.games_seen > 0
    assert learner.state.samples_trained <= 2.0 * learner.window.total
    lines = [json.loads(line) for line in (tmp_path / "metrics/trainer.jsonl").read_text().splitlines()]
    assert any("losses/policy" in line for line in lines)
    with (tmp_path / "metrics/trainer.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"time", "step", *FIGURES}
    assert len(rows) == len(lines)
    assert float(rows[-1]["charts/games_ever"]) == len(trainer.training.replay.log)


async def test_all_allowed_steps_are_taken_and_no_more(tmp_path, record):
    stream, settings = MemoryStream(), settings_of(tmp_path, train={**TRAIN, "samples_per_candidate": 10_000})
    async with RunningTrainer(settings, stream, FakeGatekeeper()) as trainer:
        await publish(stream, record, range(10))
        learner = trainer.training.learner
        await until(lambda: len(trainer.training.replay.log) == 10 and not learner.steps_allowed())
        assert learner.state.samples_trained == 2 * learner.window.total // 16 * 16


async def test_a_stopped_trainer_resumes_where_it_stopped(tmp_path, record):
    stream, settings = MemoryStream(), settings_of(tmp_path)
    async with RunningTrainer(settings, stream, FakeGatekeeper()) as first:
        await publish(stream, record, range(12))
        while (await first.submitted())[0] < 2:
            pass
    state, total = first.training.learner.state, first.training.replay.window.total
    assert load_latest(tmp_path / "replay/checkpoints", unpack)[0].learner == state
    async with RunningTrainer(settings, stream, FakeGatekeeper()) as second:
        assert second.training.replay.window.total >= total
        assert second.training.learner.state.step >= state.step
        newest = second.training.newest_version
        assert (await second.submitted())[0] == newest  # offered again: harmless, and safe if the first offer was lost
    assert second.training.accounts.candidate_version >= 2


async def test_the_gatekeeper_may_start_after_the_trainer(tmp_path):
    async with RunningTrainer(settings_of(tmp_path), MemoryStream(), FakeGatekeeper(failures=3)) as trainer:
        assert (await trainer.submitted())[0] == 1


async def test_a_candidate_is_submitted_again_while_the_gatekeeper_is_overloaded(tmp_path, record):
    stream, gatekeeper = MemoryStream(), FakeGatekeeper(refusal=Overloaded("Concurrent RPC limit exceeded!"))
    async with RunningTrainer(settings_of(tmp_path), stream, gatekeeper) as trainer:
        await publish(stream, record, range(12))
        assert (await trainer.submitted())[0] >= 1
        assert gatekeeper.refusal is None
        assert not trainer.task.done()


REFUSALS = {
    "corrupt": CorruptModel("its manifest cannot be read"),
    "invalid": InvalidRequest("another game"),
    "missing": ModelNotFound("no version 1 is stored"),
}


@pytest.mark.parametrize("reason", REFUSALS)
async def test_a_refused_candidate_is_settled_with_its_reason_and_does_not_end_the_trainer(tmp_path, record, reason):
    counted = metrics.CANDIDATES_REFUSED.labels(reason=reason)._value
    before, stream, gatekeeper = counted.get(), MemoryStream(), FakeGatekeeper(refusal=REFUSALS[reason])
    with structlog.testing.capture_logs() as logs:
        async with RunningTrainer(settings_of(tmp_path), stream, gatekeeper) as trainer:
            await publish(stream, record, range(12))
            assert (await trainer.submitted())[0] == 2
    (refused,) = [line for line in logs if line["event"] == "candidate.refused"]
    assert (refused["version"], refused["reason"], refused["error"]) == (1, reason, str(REFUSALS[reason]))
    assert counted.get() - before == 1


async def test_a_manifest_damaged_on_disk_settles_its_version_before_and_after_a_restart(tmp_path, record):
    settings, gatekeeper = settings_of(tmp_path), FakeGatekeeper()
    manifest = tmp_path / "models" / MODEL / "1" / "manifest.json"
    async with RunningTrainer(settings, MemoryStream(), gatekeeper) as trainer:
        await trainer.submitted()
    manifest.write_bytes(b"\xff not json")
    stream = MemoryStream()
    async with RunningTrainer(settings, stream, gatekeeper) as trainer:
        await publish(stream, record, range(12))
        assert (await trainer.submitted())[0] == 2


@pytest.mark.parametrize(
    "failure",
    [
        ZerofleetError("internal error 4f1c"),
        ConfigurationError("the gatekeeper cannot do this now"),
        StaleEpoch("another gatekeeper has taken over"),
        PermissionRefused("wrong token"),
        PermissionError(13, "Permission denied"),
        ValueError("an answer of another version"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_failure_that_is_not_the_candidates_fault_is_logged_once_and_the_candidate_submitted_again(tmp_path, failure):
    gatekeeper = FakeGatekeeper()
    submit, failures = gatekeeper.submit, iter([failure] * 3)

    async def flaky(*arguments):
        if (error := next(failures, None)) is not None:
            raise error
        return await submit(*arguments)

    gatekeeper.submit = flaky
    with structlog.testing.capture_logs() as logs:
        async with RunningTrainer(settings_of(tmp_path), MemoryStream(), gatekeeper) as trainer:
            assert (await trainer.submitted())[0] == 1
            assert not trainer.task.done()
    assert [line["error"] for line in logs if line["event"] == "candidate.not_submitted"] == [str(failure)]


async def test_a_full_disk_delays_a_candidate_while_training_continues(tmp_path, record, monkeypatch):
    stream = MemoryStream()
    monkeypatch.setattr(service_module, "RETRY_S", 0.001)
    publish_version, refusals = DirectoryStore.publish, iter(range(2))

    def refuse_twice(self, model, files, manifest, *, config=None):
        if manifest.train_steps and next(refusals, None) is not None:
            raise Unavailable("cannot store a version: No space left on device")
        return publish_version(self, model, files, manifest, config=config)

    monkeypatch.setattr(DirectoryStore, "publish", refuse_twice)
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        await publish(stream, record, range(12))
        assert (await trainer.submitted())[0] == 2


async def test_games_are_taken_while_the_model_store_is_unavailable(tmp_path, record, monkeypatch):
    def refuse(self, model):
        raise Unavailable("the object store does not answer")

    stream = MemoryStream()
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        monkeypatch.setattr(DirectoryStore, "versions", refuse)
        await publish(stream, record, range(2))
        await until(lambda: len(trainer.training.replay.log) == 2)
        assert trainer.training.newest_version == 1


@pytest.mark.parametrize("error", [CorruptModel("not a version"), OSError(28, "No space left on device")])
async def test_a_trainer_stopped_while_games_cannot_be_stored_writes_its_last_checkpoint(tmp_path, record, monkeypatch, error):
    refused = []

    def refuse(*_):
        refused.append(error)
        raise error

    stream, settings = MemoryStream(), settings_of(tmp_path, train={**TRAIN, "samples_per_candidate": 10_000})
    async with RunningTrainer(settings, stream, FakeGatekeeper()) as trainer:
        learner, replay = trainer.training.learner, trainer.training.replay
        await publish(stream, record, range(10))
        await until(lambda: len(replay.log) == 10 and not learner.steps_allowed())
        place, name = (replay, "keep") if isinstance(error, OSError) else (DirectoryStore, "versions")
        monkeypatch.setattr(place, name, refuse)
        await stream.publish(*record(10, version=1 if place is replay else 2))  # the store is asked for version 2
        await until(lambda: refused)
    assert learner.state.step > 0
    assert load_latest(tmp_path / "replay/checkpoints", unpack)[0].learner == learner.state
    assert (await stream.stats()).pending == 1


async def test_a_trainer_that_stops_writes_its_last_checkpoint_while_the_intake_still_waits(tmp_path, record, monkeypatch):
    never, waits = asyncio.Event(), asyncio.Event()

    async def hang(checked):
        waits.set()
        await never.wait()

    train = {**TRAIN, "samples_per_candidate": 10_000}
    settings = settings_of(tmp_path, train=train, checkpoint_every_s=3600.0)
    async with RunningTrainer(settings, MemoryStream(), FakeGatekeeper()) as trainer:
        learner = trainer.training.learner
        monkeypatch.setattr(trainer.intake, "_settle", hang)
        await publish(trainer.stream, record, range(10))
        await waits.wait()
        await until(lambda: learner.state.step and not learner.steps_allowed())
        stopping = asyncio.create_task(trainer.service.drain())
        await until(lambda: load_latest(tmp_path / "replay/checkpoints", unpack)[0].learner == learner.state)
        assert not stopping.done()
        never.set()
        await stopping


async def test_an_averaged_network_that_is_not_finite_is_not_published(tmp_path, record):
    stream = MemoryStream()
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        trainer.training.learner.average.weights[0].fill_(float("nan"))
        await publish(stream, record, range(12))
        await until(lambda: trainer.training.accounts.candidate_samples)
        assert trainer.training.newest_version == 1
        assert not trainer.task.done()


async def test_a_candidate_of_a_damaged_store_stays_due_and_is_published_once_the_store_is_mended(
    tmp_path, record, monkeypatch
):
    monkeypatch.setattr(service_module, "RETRY_S", 0.0)
    stream, counter = MemoryStream(), tmp_path / "models" / MODEL / ".last_version"
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        counter.write_text("")
        with structlog.testing.capture_logs() as logged:
            await publish(stream, record, range(12))
            await until(lambda: [line for line in logged if line["event"] == "candidate.not_published"])
        assert not [line for line in logged if line["event"] == "candidate.unfit"]
        counter.write_text("1")
        assert (await trainer.submitted())[0] == 2


async def test_a_candidate_waits_while_the_store_of_the_run_is_away(tmp_path, record, monkeypatch):
    monkeypatch.setattr(service_module, "RETRY_S", 0.0)
    stream, models, moved = MemoryStream(), tmp_path / "models", tmp_path / "moved"
    async with RunningTrainer(settings_of(tmp_path), stream, FakeGatekeeper()) as trainer:
        assert (await trainer.submitted())[0] == 1
        models.rename(moved)
        with structlog.testing.capture_logs() as logged:
            await publish(stream, record, range(12))
            await until(lambda: [line for line in logged if line["event"] == "candidate.not_published"])
        assert {line["error"] for line in logged if line["event"] == "candidate.not_published"} == {
            f"no version of {MODEL} is left in {models}; was the store removed?"
        }
        assert not models.exists()
        moved.rename(models)
        assert (await trainer.submitted())[0] == 2


async def test_weights_of_a_warm_start_that_are_not_finite_end_the_trainer(tmp_path, record):
    stream, settings = MemoryStream(), settings_of(tmp_path, warm_start={"games": 10, "agents": "random"})

    async def run_to_its_end():
        async with RunningTrainer(settings, stream, FakeGatekeeper()) as trainer:
            trainer.training.learner.average.weights[0].fill_(float("nan"))
            for number in range(10):
                await stream.publish(*record(number, version=0, versions=(EXTERNAL,) * 2, agents=("random",) * 2))
            async with asyncio.timeout(60):
                await asyncio.wait([trainer.task])

    with pytest.raises(ExceptionGroup) as caught:
        await run_to_its_end()
    assert caught.group_contains(Diverged)


async def test_a_second_trainer_leaves_the_history_of_the_running_one_alone(tmp_path, game):
    settings, figures = settings_of(tmp_path), tmp_path / "metrics" / "trainer.jsonl"
    running = open_training(settings, game)
    figures.parent.mkdir(exist_ok=True)
    figures.write_text('{"step": 1}\n{"step"')  # a line that is being written
    with pytest.raises(RunDirectoryError, match="another process"):
        await service_module.serve(Service(settings), settings)
    running.replay.close()
    assert figures.read_text() == '{"step": 1}\n{"step"'


@pytest.mark.slow
async def test_a_trainer_may_read_games_in_processes_of_their_own(tmp_path, record):
    stream, settings = MemoryStream(), settings_of(tmp_path, intake_processes=2)
    async with RunningTrainer(settings, stream, FakeGatekeeper()) as trainer:
        assert isinstance(trainer.reader, ReaderProcesses)
        await publish(stream, record, range(10))
        assert (await trainer.submitted())[0] == 1
        assert (await trainer.submitted())[0] == 2
        assert len(trainer.training.replay.log) == 10
    assert trainer.reader.pids == []


@pytest.mark.parametrize(
    ("given", "device", "processes"), [("auto", "cpu", 0), ("auto", "cuda", 2), (0, "cuda", 0), (1, "cpu", 1)]
)
def test_games_are_read_beside_a_gpu_in_processes_of_their_own(tmp_path, monkeypatch, game, given, device, processes):
    started = []
    monkeypatch.setattr(service_module, "ReaderProcesses", lambda settings, count, spec: started.append(count))
    training = open_training(settings_of(tmp_path, intake_processes=given), game)
    open_reader(training, torch.device(device))
    training.replay.close()
    assert sum(started) == processes


def test_a_learner_that_reads_in_a_thread_refuses_processes(tmp_path, game):
    settings = TrainerSettings(
        run_dir=tmp_path, game=MODEL, preset="tiny", network={"hidden": [4]}, train={"learner": "td_lambda"}, intake_processes=1
    )
    training = open_training(settings, game)
    with pytest.raises(ConfigurationError, match="intake_processes=1: the learner td_lambda reads games in a thread"):
        open_reader(training, torch.device("cpu"))
    training.replay.close()
