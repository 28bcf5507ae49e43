"""Training from Python: refusals before anything starts, and a run that cannot be kept going."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

import zerofleet as zf
from games import UnknownGame, make
from zerofleet.errors import ConfigurationError, RunDirectoryError
from zerofleet.storage.runs import RunDirectory, read_header


def test_wrong_requests_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with pytest.raises(UnknownGame, match="no game is called 'chess'"):
        zf.train("chess", run_dir=root)
    with pytest.raises(ConfigurationError, match=r"did you mean search\.simulations"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=root, settings={"search.simulation": 3})
    with pytest.raises(ConfigurationError, match="no preset is called 'huge'"):
        zf.train("tic_tac_toe", preset="huge", run_dir=root)
    assert not root.exists()


def test_a_run_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny"):
        with pytest.raises(RunDirectoryError, match="in use by process"):
            zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run")


@pytest.mark.slow
async def test_a_service_that_refuses_to_start_is_an_error_of_the_run(
    tmp_path: Path, small: Mapping[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    others = {child.pid for child in psutil.Process().children()}
    with pytest.raises(zf.ZerofleetError, match="trainer refused to start"):
        with zf.train(
            make("tic_tac_toe", size=4), preset="tiny", run_dir=tmp_path, settings={**small, "trainer.device": "moon"}
        ) as run:
            run.wait()
    assert {child.pid for child in psutil.Process().children()} <= others
    assert "zerofleet run of tic_tac_toe size=4, preset tiny" in capsys.readouterr().out
    RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {"size": "4"}, preset="tiny").close()


@pytest.mark.slow
def test_a_run_keeps_its_seed_and_its_directory_is_free_afterwards(trained: Path) -> None:
    assert read_header(trained).seed == 7
    assert not list((trained / "services").iterdir())
    RunDirectory.create_or_open(trained, "tic_tac_toe", {}, preset="tiny").close()
