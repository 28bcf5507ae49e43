"""The whole loop by its command line: it learns, ends, goes on, and refuses what it must."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cli import main
from zerofleet.presets.experiment import read_experiment
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import read_header

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]


async def test_a_run_refuses_a_second_start_promotes_candidates_stops_on_request_and_resumes(
    start_run: StartRun, check_promises: CheckPromises, tmp_path: Path
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
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "SIGINT: stopping the services" in text
    assert f"zerofleet play tic_tac_toe --run-dir {root}" in text
    assert "zerofleet run tic_tac_toe --preset tiny --set gate.mode=share" in text
    assert not list((root / "services").iterdir())
    stored = await check_promises(run.paths)
    champion = DirectoryStore(root / "models").champion("tic_tac_toe")

    async with start_run(*lenient) as run:
        await run.until(r"candidate \d+ promoted against")  # it may be one that the run before left, and no game yet
        await run.until_stored(stored)
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
        (
            ("tic_tac_toe", "--set", "trainer.log_leve=debug"),
            "error: trainer: unknown setting --set trainer.log_leve; did you mean --set trainer.log_level?\n",
        ),
        (("tic_tac_toe", "--set", "selfplay_worker.grace_s=soon"), "selfplay_worker: setting grace_s: want a number"),
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
