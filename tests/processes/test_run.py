"""The whole loop by its command line: it learns, is backed up, ends, is restored, goes on, and refuses what it must."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cli import main
from zerofleet.presets.experiment import read_experiment
from zerofleet.storage.backups import restore_backup
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunPaths, read_header
from zerofleet.storage.streams import open_stream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]


async def take_backup(root: Path, to: Path) -> Path:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from zerofleet.cli import main; main()", "backup", str(root), "--to", str(to)),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return Path(out.decode().strip())


def stored_games(paths: RunPaths) -> set[str]:
    with GameLog.open(paths.replay, writer=False) as log:
        return set(log.uids())


async def games_in(paths: RunPaths) -> set[str]:
    """Return the games that a run has stored or has waiting in its stream."""
    stream = open_stream(
        f"{paths.stream_url}?idle_s=0.001", name="games"
    )  # those delivered and not acknowledged count as waiting
    try:
        return stored_games(paths) | {
            delivery.uid for delivery in await stream.consume(consumer="test", limit=100_000, block_s=0)
        }
    finally:
        await stream.aclose()


async def test_a_run_refuses_a_second_start_is_backed_up_stops_on_request_and_resumes_from_the_backup(
    start_run: StartRun, check_promises: CheckPromises, published: Callable[[RunPaths], set[str]], tmp_path: Path
) -> None:
    root = tmp_path / "run"
    # A gate that lets nearly everything pass: what is tested is the way there, not whether so small a loop gets stronger.
    lenient = ("--set", "gate.mode=share", "--set", "gate.share=0.2")
    async with start_run("--seed", "7", *lenient) as run:
        await run.until(r"candidate 1 promoted: first champion")
        async with start_run() as second:
            text = await second.rest()
        assert second.process.returncode == 2
        assert f"in use by process {run.process.pid}" in text
        await run.until(r"candidate \d+ promoted against")
        before = published(run.paths)
        backup = await take_backup(root, tmp_path / "backups")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "SIGINT: stopping the services" in text
    assert f"zerofleet play tic_tac_toe --run-dir {root}" in text
    assert "zerofleet run tic_tac_toe --preset tiny --set gate.mode=share" in text
    assert not list((root / "services").iterdir())
    await check_promises(run.paths)

    shutil.rmtree(root)
    restore_backup(backup, root)
    assert before <= await games_in(run.paths)
    store = DirectoryStore(run.paths.models)
    champion = store.champion("tic_tac_toe")
    assert champion is not None
    assert store.verify("tic_tac_toe", champion.version).version == champion.version
    assert store.history("tic_tac_toe")[-1].epoch == champion.epoch
    stored = len(stored_games(run.paths))

    async with start_run(*lenient) as run:
        await run.until(r"candidate \d+ promoted against")
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "first champion" not in text
    assert read_header(root).seed == 7
    assert await check_promises(run.paths) > stored
    later = store.champion("tic_tac_toe")
    assert later is not None
    assert later.version > champion.version
    assert later.epoch > champion.epoch


async def test_a_run_of_an_experiment_file_with_a_duration_stores_the_experiment_and_ends(
    start_run: StartRun, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        'game = "tic_tac_toe"\npreset = "tiny"\nseed = 11\n[search]\npuct_init = 1.75\n[trainer]\nintake_games = 8\n'
    )
    async with start_run("--config", str(file), "--for", "3s") as run:
        text = await run.rest()
    kept = read_experiment(run.paths.experiment)
    assert (kept.seed, read_header(tmp_path / "run").seed, kept.settings["trainer.intake_games"]) == (11, 11, "8")
    chosen = kept.build_preset()
    assert (chosen.search.puct_init, chosen.train.batch_size) == (1.75, 32)  # of the file, and of the command line
    assert f"--config {file}" in text
    assert run.process.returncode == 0, text
    assert "the time is up; finishing" in text
    assert "  ran for " in text
    assert "--for 3s" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tic_tac_toe", "--for", "soon"), "'soon' is not a duration"),
        (("chess",), "no game is called 'chess'"),
        (("tic_tac_toe", "--set", "search.simulation=3"), "did you mean search.simulations"),
        (("tic_tac_toe", "--seed", "-1"), "seed -1 is out of range"),
    ],
)
def test_invalid_run_commands_are_refused_and_leave_no_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words, "--run-dir", str(tmp_path / "r")])
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert said in printed.err
    assert not (tmp_path / "r").exists()


async def test_a_service_that_refuses_to_start_ends_the_run_with_its_message(start_run: StartRun) -> None:
    async with start_run("--set", "trainer.device=moon") as run:
        text = await run.rest()
    assert run.process.returncode == 1
    assert "error: trainer refused to start" in text
    assert "got 'moon'" in text
