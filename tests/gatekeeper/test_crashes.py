"""SIGKILL between every two effects of a promotion: the champion is the old one or the new one, and nothing is lost."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from killed_process import MODEL, PROMOTION, fill, kill, result_of, run

from zerofleet.rpc.gatekeeper_client import GatekeeperClient

VICTIM = "victim"

# Crash points in the order in which a promotion passes them, and the champion they leave behind. The processes of one list
# die one after another, each in the work that its predecessor left; a new list begins where a restart skips the next point.
DEATHS = [
    [("gatekeeper_after_result", 1), ("gatekeeper_after_result:7", 1), *PROMOTION[:4], ("gatekeeper_after_verdict", 2)],
    [("gatekeeper_after_champion", 2)],
    [("gatekeeper_before_verdict", 2)],
]


@pytest.fixture
def directory(tmp_path, models):
    fill(models, 2)
    return tmp_path


@pytest.fixture(scope="session")
def expected(tmp_path_factory, fakes):
    """Output of a run without a kill."""
    directory = tmp_path_factory.mktemp("undisturbed")
    fill(fakes[0](directory / "models"), 2)
    return result_of(run(VICTIM, directory))


@pytest.mark.slow
@pytest.mark.parametrize("deaths", DEATHS, ids=["match and promotion", "after the champion", "before the verdict"])
def test_kills_leave_a_valid_champion_and_the_next_start_finishes_the_work(directory, expected, deaths):
    for point, champion in deaths:
        store = kill(VICTIM, directory, point, champion=champion)
    finished = result_of(run(VICTIM, directory))
    assert finished["status"] == "promoted"
    assert finished["champion"] == 2
    assert finished["match"] == expected["match"]  # as if nothing had happened: no game counted twice, none lost
    assert finished["rungs"] == expected["rungs"]
    assert finished["epochs"] == sorted(set(finished["epochs"]))
    assert [c.version for c in store.history(MODEL)] == [1, 2]


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
        async with asyncio.timeout(120):
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
        timeout=250,
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
