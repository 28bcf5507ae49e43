"""The trainer as a process: signals, crashes at named points, settings."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from trainer.checkpoint import unpack
from trainer.checkpoint_files import load_latest
from trainer.ranks import choose_device
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.errors import ConfigurationError
from zerofleet.service.settings import read_settings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.streams import SqliteStream

MODEL = "tic_tac_toe"
READY = "ready.json"
SMALL = {
    "network": {"blocks": 1, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8},
    "train": {"batch_size": 16, "min_samples": 20, "samples_per_candidate": 60, "window_min": 200},
}


@pytest.fixture
async def stream(tmp_path):
    opened = SqliteStream(tmp_path / "games.db", name="games")
    yield opened
    await opened.aclose()


@pytest.fixture
def start(tmp_path):
    """Start a trainer; with a crash point, one that will kill itself there."""

    async def start_trainer(crash_at=""):
        arguments = ["--run-dir", str(tmp_path), "--game", MODEL, "--preset", "tiny", "--announce", str(tmp_path / READY)]
        for part, values in SMALL.items():
            for name, value in values.items():
                arguments += [f"--{part}.{name.replace('_', '-')}", str(value)]
        environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": crash_at}
        return await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", "-m", "trainer", *arguments, env=environment
        )

    return start_trainer


async def stop_when_idle(process, stream, store, versions=2):
    """Wait until every game is taken and `versions` are published, then end the process as a platform would."""
    ready = store.root.parent / READY
    async with asyncio.timeout(120):
        while not ready.exists() or (await stream.stats()).length or len(store.versions(MODEL)) < versions:
            assert process.returncode is None
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


PUBLISHING = (
    "store_after_manifest_before_rename:2",
    "trainer_after_publish_before_checkpoint",
    "trainer_after_checkpoint_before_submit",
)


@pytest.mark.slow
async def test_a_trainer_killed_while_publishing_or_stopped_by_sigterm_resumes_with_whole_models_and_every_game_once(
    tmp_path, record, game, stream, start
):
    for number in range(12):
        await stream.publish(*record(number))
    for point in PUBLISHING:  # each in the work that its predecessor left
        async with asyncio.timeout(120):
            assert await (await start(point)).wait() == -signal.SIGKILL, point
        (tmp_path / READY).unlink(missing_ok=True)  # a killed process leaves it behind
    store, steps = DirectoryStore(tmp_path / "models"), []
    for run in range(2):
        for number in range(100 + 12 * run, 112 + 12 * run):
            await stream.publish(*record(number))
        await stop_when_idle(await start(), stream, store, versions=len(store.versions(MODEL)) + 1)
        checkpoint, _ = load_latest(tmp_path / "replay" / "checkpoints", unpack)
        assert checkpoint.accounts.candidate_version >= 2
        steps.append(checkpoint.learner.step)
    assert 0 < steps[0] < steps[1]
    numbers = [*range(12), *range(100, 124)]
    with GameLog.open(tmp_path / "replay", writer=False) as log:
        assert sorted(log.uids()) == sorted(record(number)[0] for number in numbers)
    for version in store.versions(MODEL):
        store.verify(MODEL, version, game=game)
    assert store.versions(MODEL)[-1] >= 2
    assert not list((tmp_path / "models" / MODEL).glob(".*.tmp"))


@pytest.mark.slow
async def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, game, start):
    settings = TrainerSettings(run_dir=tmp_path, game=MODEL, preset="tiny", **SMALL)
    open_training(settings, game).replay.close()
    (tmp_path / "replay" / "checkpoints" / "00000001" / "state.safetensors").write_bytes(b"")
    process = await start()
    async with asyncio.timeout(120):
        assert await process.wait() == 2


def test_settings_come_from_the_preset_and_can_be_overridden():
    settings, origins = read_settings(
        TrainerSettings, ["--train.batch-size", "64"], {"ZEROFLEET_TRAIN__MAX_REUSE": "2", "ZEROFLEET_RUN_DIR": "/tmp/run"}
    )
    assert (settings.train.batch_size, settings.train.max_reuse) == (64, 2.0)
    assert settings.train.window_min == 20_000
    assert str(settings.model_store) == "/tmp/run/models"
    assert origins["train.batch_size"] == "command line"
    assert origins["train.max_reuse"] == "environment"


def test_a_missing_gpu_is_reported(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigurationError, match="finds no GPU"):
        choose_device("cuda")
