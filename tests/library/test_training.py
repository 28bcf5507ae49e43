"""Training from Python: refusals before anything starts, and a run that cannot be kept going."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest

import zerofleet as zf
from games import UnknownGame, make
from zerofleet.errors import ConfigurationError, RunDirectoryError
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.runs import RunDirectory, RunPaths, read_header
from zerofleet.supervisor import RunRequest


def test_wrong_requests_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with pytest.raises(UnknownGame, match="no game is called 'chess'"):
        zf.train("chess", run_dir=root)
    with pytest.raises(ConfigurationError, match=r"did you mean search\.simulations"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=root, settings={"search.simulation": 3})
    with pytest.raises(ConfigurationError, match=r"trainer: setting device: .* got 'moon'"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=root, settings={"trainer.device": "moon"})
    with pytest.raises(ConfigurationError, match="unknown preset 'huge'"):
        zf.train("tic_tac_toe", preset="huge", run_dir=root)
    for minutes in (-1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="is out of range; want a finite number above 0, or None"):
            zf.train("tic_tac_toe", preset="tiny", run_dir=root, minutes=minutes)
    assert not root.exists()


def test_a_run_that_is_in_use_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "run"
    held = RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny")
    with held, pytest.raises(RunDirectoryError, match="in use by process"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=root)


def test_a_run_that_is_continued_keeps_its_settings_apart_from_those_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Experiment("tic_tac_toe", "tiny", 5, {}, {"network.blocks": "3", "search.simulations": "29"})
    RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5).close()
    RunPaths(tmp_path / "run").experiment.write_text(commented(kept))

    def refuse(request: RunRequest, _console: object) -> None:
        chosen = request.build_preset()
        raise ConfigurationError(f"{chosen.network.blocks} blocks, {chosen.search.simulations} simulations")

    monkeypatch.setattr("zerofleet.library.training.supervising", refuse)
    with pytest.raises(ConfigurationError, match=r"^3 blocks, 31 simulations$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run", settings={"search.simulations": 31})
    with pytest.raises(ConfigurationError, match=r"^1 blocks, 31 simulations$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "new", settings={"search.simulations": 31})


def test_a_run_has_the_devices_of_the_call_or_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Experiment("tic_tac_toe", "tiny", 5, {}, {}, devices=("cpu", "cpu"))
    RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5).close()
    RunPaths(tmp_path / "run").experiment.write_text(commented(kept))

    def refuse(request: RunRequest, _console: object) -> None:
        raise ConfigurationError(f"{request.devices}, {request.workers} workers")

    monkeypatch.setattr("zerofleet.library.training.supervising", refuse)
    with pytest.raises(ConfigurationError, match=r"^\('cpu', 'cpu'\), 2 workers$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run")
    with pytest.raises(ConfigurationError, match=r"^\('cpu', 'cpu', 'cpu'\), 4 workers$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run", devices=["cpu"] * 3, workers=4)
    with pytest.raises(ConfigurationError, match=r"^\(\), 1 workers$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "new")
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="devices: 'moon' is not a device; want cpu or cuda:N"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "new", devices=["moon"])
    with pytest.raises(ConfigurationError, match=r"devices='cpu' is one text; want a list, such as \['cpu'\]"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "new", devices="cpu")


def test_a_run_that_needs_a_token_is_not_continued_without_it(tmp_path: Path) -> None:
    kept = Experiment("tic_tac_toe", "tiny", 5, {}, {"trainer.token": "hush"})
    RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {}, preset="tiny", seed=5).close()
    RunPaths(tmp_path).experiment.write_text(commented(kept))
    with pytest.raises(ConfigurationError, match=r"lacks secret settings of the experiment.*--set trainer\.token=VALUE"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path)


def test_settings_may_be_numbers_of_numpy_and_other_values_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: RunRequest, _console: object) -> None:
        chosen = request.build_preset()
        raise ConfigurationError(f"{chosen.search.simulations}, {chosen.network.hidden}, {chosen.search.prove_values}")

    monkeypatch.setattr("zerofleet.library.training.supervising", refuse)
    settings = {"search.simulations": np.int64(31), "network.hidden": np.array([8, 4]), "search.prove_values": np.bool_(False)}
    with pytest.raises(ConfigurationError, match=r"^31, \(8, 4\), False$"):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run", settings=settings)
    with pytest.raises(
        ConfigurationError, match=r"settings\['trainer\.costs'\]=PosixPath\('x'\): it is a PosixPath; want a text"
    ):
        zf.train("tic_tac_toe", preset="tiny", run_dir=tmp_path / "run", settings={"trainer.costs": Path("x")})


@pytest.mark.slow
async def test_a_service_that_refuses_to_start_is_an_error_of_the_run(
    tmp_path: Path, small: Mapping[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    others = {child.pid for child in psutil.Process().children()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {**small, "inference_server.http_address": f"127.0.0.1:{taken.getsockname()[1]}"}
        run = zf.train(make("connect_four", rows=5), preset="tiny", run_dir=tmp_path, settings=settings)
        with pytest.raises(zf.ZerofleetError, match=r"(?s)inference_server refused to start.*in use"), run:
            run.wait()
    assert {child.pid for child in psutil.Process().children()} <= others
    assert "zerofleet run of connect_four rows=5, preset tiny" in capsys.readouterr().out
    RunDirectory.create_or_open(tmp_path, "connect_four", {"rows": "5"}, preset="tiny").close()


@pytest.mark.slow
def test_a_run_keeps_its_seed_and_its_directory_is_free_afterwards(trained: Path) -> None:
    assert read_header(trained).seed == 7
    assert not list((trained / "services").iterdir())
    RunDirectory.create_or_open(trained, "tic_tac_toe", {}, preset="tiny").close()


FORGETFUL = """
import json, sys, psutil, zerofleet as zf
from pathlib import Path
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.borrowed import live_address

root, other_root = map(Path, sys.argv[1:3])
run = zf.train("tic_tac_toe", preset="tiny", run_dir=root, settings=json.loads(sys.argv[3]), progress=False)
while live_address(RunPaths(root), "inference_server") is None:
    assert not run.wait(0.1)
services = psutil.Process().children()
champion = run.champion()
assert champion.analyse(["b2"], simulations=4).model_version == champion.version
assert psutil.Process().children() == services
other = zf.open_run(other_root)
other.champion().analyse(simulations=0)
print(*(child.pid for child in psutil.Process().children()))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_under_way_answers_with_its_own_server_and_ends_with_the_process_as_does_a_server_left_open(
    tmp_path: Path, trained: Path, small: Mapping[str, object]
) -> None:
    root = shutil.copytree(trained, tmp_path / "run")
    command = [sys.executable, "-c", FORGETFUL, str(root), str(trained), json.dumps(dict(small))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 5  # four services and a server
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not list((root / "services").iterdir())
