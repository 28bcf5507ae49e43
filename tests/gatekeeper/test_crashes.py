"""SIGKILL between every two effects of a promotion: the champion is the old one or the new one, and nothing is lost."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.model_store import DirectoryStore

MODEL = "tic_tac_toe"
VICTIM = Path(__file__).with_name("victim.py")

# In the order in which a promotion passes them; the champion they leave behind.
POINTS = [
    ("gatekeeper_after_result", 1),
    ("gatekeeper_after_result:7", 1),
    ("gatekeeper_before_promotion", 1),
    ("gatekeeper_after_epoch_before_champion", 1),
    ("store_before_champion", 1),
    ("store_after_champion_before_history", 2),
    ("gatekeeper_after_champion", 2),
    ("gatekeeper_before_verdict", 2),
    ("gatekeeper_after_verdict", 2),
]


def run(directory, crash_at=""):
    environment = {**os.environ, VARIABLE: crash_at} if crash_at else dict(os.environ)
    return subprocess.run(
        [sys.executable, str(VICTIM), str(directory)], capture_output=True, text=True, env=environment, timeout=250, check=False
    )


@pytest.fixture
def directory(tmp_path, models):
    fill(models)
    return tmp_path


@pytest.fixture(scope="session")
def expected(tmp_path_factory, fakes):
    """Output of a run without a kill."""
    directory = tmp_path_factory.mktemp("undisturbed")
    fill(fakes[0](directory / "models"))
    return said(run(directory))


def fill(models):
    for _ in range(2):
        models.publish()
    models.store.write_champion(MODEL, 1, epoch=5, reason="first")


def said(finished):
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("point", "champion"), POINTS)
def test_a_kill_leaves_a_valid_champion_and_the_next_start_finishes_the_work(directory, expected, point, champion):
    killed = run(directory, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = DirectoryStore(directory / "models")
    assert store.champion(MODEL).version == champion
    store.verify(MODEL, champion)
    finished = said(run(directory))
    assert finished["status"] == "promoted"
    assert finished["champion"] == 2
    assert finished["match"] == expected["match"]  # as if nothing had happened: no game counted twice, none lost
    assert finished["rungs"] == expected["rungs"]
    assert finished["epochs"] == sorted(set(finished["epochs"]))
    assert [c.version for c in store.history(MODEL)] == [1, 2]


@pytest.mark.slow
def test_a_gatekeeper_killed_repeatedly_still_finishes_its_work(directory):
    kills = 0
    for games in range(2, 40):
        finished = run(directory, f"gatekeeper_after_result:{games}")
        if finished.returncode == 0:
            break
        kills += 1
        assert finished.returncode == -signal.SIGKILL, finished.stderr
    assert kills >= 2
    assert said(finished)["champion"] == 2


async def start(directory, **variables):
    """Start `python -m gatekeeper`; returns it once it has announced itself."""
    announce = directory / "gatekeeper.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gatekeeper", "--run-dir", str(directory), "--game", MODEL, "--preset", "tiny"),
        *("--announce", str(announce), "--log-format", "json", "--gate.mode", "off"),
        stdout=subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
    )
    while b"service.ready" not in (line := await process.stderr.readline()):
        assert line, "the gatekeeper ended before it was ready"
    return process, json.loads(announce.read_bytes())


@pytest.mark.slow
async def test_sigterm_ends_the_service_cleanly_with_watchers_connected(directory):
    process, announced = await start(directory)
    async with GatekeeperClient(announced["address"]) as client:
        watching = client.watch(MODEL)
        assert (await anext(watching)).version == 1
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            _, errors = await process.communicate()
        await watching.aclose()
    assert process.returncode == 0
    assert b'"exit_code": 0' in errors
    assert not (directory / "gatekeeper.json").exists()


@pytest.mark.slow
async def test_a_second_gatekeeper_process_exits_with_one_line_and_a_killed_one_is_replaced(directory):
    first, _ = await start(directory)
    second = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "gatekeeper", "--run-dir", str(directory), "--game", MODEL, "--preset", "tiny"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 2
    assert "already; stop it before starting another" in second.stderr
    assert "Traceback" not in second.stderr
    first.kill()
    await first.communicate()
    third, announced = await start(directory)
    assert announced["pid"] == third.pid
    third.terminate()
    await third.communicate()
    assert third.returncode == 0
