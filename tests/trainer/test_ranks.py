"""The trainer under torchrun: it goes on from one process's checkpoint, ends as one, and no rank outlives one that hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import psutil
import pytest

from trainer.checkpoint import unpack
from trainer.checkpoint_files import load_latest
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.streams import SqliteStream

MODEL = "tic_tac_toe"
SMALL = {
    "network": {"blocks": 1, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8},
    "train": {"batch_size": 17, "min_samples": 20, "samples_per_candidate": 60, "window_min": 200},
}
DEADLINE_S = 240.0
RANK_TIMEOUT_S = 30  # the ranks of a slow machine must not seem to hang

pytestmark = pytest.mark.slow


@pytest.fixture
async def stream(tmp_path):
    opened = SqliteStream(tmp_path / "games.db", name="games")
    yield opened
    await opened.aclose()


class Torchrun:
    """A trainer of two ranks."""

    def __init__(self, directory, process):
        self.store = DirectoryStore(directory / "models")
        self.process = process
        self.output = []

    async def read(self):
        async for line in self.process.stdout:
            self.output.append(line.decode())

    def pid(self, rank):
        """Return the process of a rank, None while there is none."""
        for child in psutil.Process(self.process.pid).children():
            try:
                if child.environ().get("RANK") == str(rank):
                    return child.pid
            except psutil.Error:  # it is just beginning or ending
                continue
        return None

    async def until(self, condition):
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                assert self.process.returncode is None, "".join(self.output)
                await asyncio.sleep(0.05)

    def said(self, words):
        return sum(words in line for line in self.output)

    def versions(self):
        return len(self.store.versions(MODEL))


@pytest.fixture
def torchrun(tmp_path):
    """Start two ranks."""

    @asynccontextmanager
    async def start(*options, **settings):
        arguments = ["--run-dir", str(tmp_path), "--game", MODEL, "--preset", "tiny", "--device", "cpu"]
        for name, value in {**settings, **SMALL["network"], **SMALL["train"]}.items():
            part = next((f"{part}." for part, names in SMALL.items() if name in names), "")
            arguments += [f"--{part}{name.replace('_', '-')}", str(value)]
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *options]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
        process = await asyncio.create_subprocess_exec(
            *command,
            "-m",
            "trainer",
            *arguments,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        running = Torchrun(tmp_path, process)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.read())
            try:
                yield running
                async with asyncio.timeout(DEADLINE_S):
                    await process.wait()
            finally:
                if process.returncode is None:
                    for child in psutil.Process(process.pid).children(recursive=True):
                        child.kill()
                    process.kill()

    return start


def steps(directory):
    return load_latest(directory / "replay" / "checkpoints", unpack)[0].learner.step


async def test_two_ranks_resume_from_the_checkpoint_of_one_are_restarted_after_one_hangs_and_stop_on_request(
    tmp_path, record, game, stream, torchrun
):
    settings = TrainerSettings(run_dir=tmp_path, game=MODEL, preset="tiny", **SMALL)
    alone = open_training(settings, game)
    alone.replay.keep([AcceptedGame(uid, payload, alone.replay.read(payload)) for uid, payload in map(record, range(12))])
    for _ in range(3):
        alone.learner.step()
    alone.save()
    alone.replay.close()
    async with torchrun("--max-restarts", "1", rank_timeout_s=RANK_TIMEOUT_S) as running:
        await running.until(lambda: running.said("follower.joined") == 1)
        first, hanging = running.pid(0), running.pid(1)
        os.kill(hanging, signal.SIGSTOP)
        await running.until(lambda: running.said("rank 0 of 2 lost another one"))  # and ends, for torchrun to restart both
        assert running.said("rank_timeout_s")
        os.kill(hanging, signal.SIGKILL)
        for number in range(100, 112):
            await stream.publish(*record(number))
        await running.until(lambda: running.said("follower.joined") == 2 and running.versions() >= 2)
        assert running.pid(0) != first
        os.kill(running.pid(1), signal.SIGTERM)  # the platform takes one of them away: all end, with a checkpoint
    assert running.process.returncode == 0
    assert running.said('"exit_code": 0') == 2  # of the second start: the first one's were killed, or lost the other
    assert steps(tmp_path) > 3
    again = open_training(settings, game)
    again.replay.close()
    assert again.learner.state.step == steps(tmp_path)
    assert again.learner.step().total > 0
