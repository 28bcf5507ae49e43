"""The whole loop by its command line: it learns, ends, goes on, and refuses what it must."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.presets.experiment import read_experiment
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import read_header

pytestmark = pytest.mark.slow

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]


async def test_a_run_promotes_candidates_stops_on_request_and_resumes(
    start_run: StartRun, check_promises: CheckPromises, tmp_path: Path
) -> None:
    root = tmp_path / "run"
    # A gate that lets nearly everything pass: what is tested is the way there, not whether so small a loop gets stronger.
    lenient = ("--set", "gate.mode=share", "--set", "gate.share=0.2")
    async with start_run("--seed", "7", *lenient) as run:
        await run.until(r"candidate 1 promoted: first champion")
        await run.until(r"candidate \d+ promoted against")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "SIGINT: stopping the services" in text
    assert f"zerofleet play tic_tac_toe --run-dir {root}" in text
    assert "zerofleet run tic_tac_toe --preset tiny --set gate.mode=share" in text
    assert not list((root / "services").iterdir())
    stored = await check_promises(run.paths)
    champion = DirectoryStore(root / "models").champion("tic_tac_toe")

    async with start_run(*lenient) as run:
        await run.until(r"candidate \d+ promoted against")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "first champion" not in text
    assert read_header(root).seed == 7
    assert await check_promises(run.paths) > stored
    later = DirectoryStore(root / "models").champion("tic_tac_toe")
    assert champion is not None
    assert later is not None
    assert (later.version, later.epoch) >= (champion.version, champion.epoch)


async def test_a_run_of_an_experiment_file_with_a_duration_stores_the_experiment_and_ends(
    start_run: StartRun, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        'game = "tic_tac_toe"\npreset = "tiny"\nseed = 11\n[search]\nsimulations = 20\n[trainer]\nintake_games = 8\n'
    )
    async with start_run("--config", str(file), "--for", "3s") as run:
        text = await run.rest()
    kept = read_experiment(run.paths.experiment)
    assert (kept.seed, read_header(tmp_path / "run").seed, kept.settings["trainer.intake_games"]) == (11, 11, "8")
    chosen = kept.build_preset()
    assert (chosen.search.simulations, chosen.train.batch_size) == (20, 64)  # of the file, and of the command line
    assert f"--config {file}" in text
    assert run.process.returncode == 0, text
    assert "the time is up; finishing" in text
    assert "  ran for " in text
    assert "--for 3s" in text


async def test_a_second_start_of_a_run_in_use_is_refused_and_the_first_continues(
    start_run: StartRun, check_promises: CheckPromises
) -> None:
    async with start_run() as run:
        await run.until("candidate 1 promoted")
        async with start_run() as second:
            text = await second.rest()
        assert second.process.returncode == 2
        assert f"in use by process {run.process.pid}" in text
        await run.until(r"candidate [2-9] ")
        text = await run.end(signal.SIGTERM)
    assert run.process.returncode == 0, text
    await check_promises(run.paths)


def refused(*arguments: str) -> str:
    """Return what `zerofleet run` says when it refuses, checking that it does so in one line with exit code 2."""
    command = [sys.executable, "-c", "from zerofleet.cli import main; main()", "run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr


def test_invalid_run_commands_are_refused_and_leave_no_files(tmp_path: Path) -> None:
    where = ("--run-dir", str(tmp_path / "r"))
    assert "'soon' is not a duration" in refused("tic_tac_toe", "--for", "soon", *where)
    assert "no game is called 'chess'" in refused("chess", *where)
    assert "did you mean search.simulations" in refused("tic_tac_toe", "--set", "search.simulation=3", *where)
    assert "seed -1 is out of range" in refused("tic_tac_toe", "--seed", "-1", *where)
    assert not (tmp_path / "r").exists()


async def test_a_service_that_refuses_to_start_ends_the_run_with_its_message(start_run: StartRun) -> None:
    async with start_run("--set", "trainer.device=moon") as run:
        text = await run.rest()
    assert run.process.returncode == 1
    assert "error: trainer refused to start" in text
    assert "got 'moon'" in text
