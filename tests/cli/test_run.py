"""`zerofleet run` as far as it goes before anything starts: experiment files are written, read and agree with the rest."""

from __future__ import annotations

import os

import pytest

from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment, read_experiment
from zerofleet.storage.runs import RunDirectory


def test_save_config_writes_an_experiment_file_and_prints_how_to_run_it(zerofleet, tmp_path):
    path = tmp_path / "my.toml"
    words = ("--preset", "tiny", "--set", "rows=5", "--set", "search.simulations=50", "--seed", "7", "--save-config", str(path))
    outcome = zerofleet("run", "connect_four", *words)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"wrote the experiment to {path}; run it with: zerofleet run --config {path}\n"
    read = read_experiment(path)
    assert (read.game, read.preset, read.seed, read.parameters) == ("connect_four", "tiny", 7, {"rows": "5"})
    assert read.build_preset().search.simulations == 50


def test_the_command_line_overrides_the_experiment_file(zerofleet, tmp_path):
    (tmp_path / "a.toml").write_text('game = "connect_four"\nseed = 3\n[parameters]\nrows = 5\n[search]\nsimulations = 31\n')
    begin = ("--config", str(tmp_path / "a.toml"), "--set", "rows=4", "--set", "search.fast_simulations=9", "--seed", "8")
    assert zerofleet("run", *begin, "--save-config", str(tmp_path / "b.toml")).code == 0
    read = read_experiment(tmp_path / "b.toml")
    search = read.build_preset().search
    assert (read.seed, read.parameters, search.simulations, search.fast_simulations) == (8, {"rows": "4"}, 31, 9)


def test_save_config_does_not_overwrite_a_file(zerofleet, tmp_path):
    path = tmp_path / "my.toml"
    path.write_text("precious")
    outcome = zerofleet("run", "tic_tac_toe", "--save-config", str(path))
    assert outcome.code == 2
    assert "the file exists; choose another name, or remove the file" in outcome.err
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "GAME is missing; give one, such as connect_four, an experiment file with --config FILE, or the run to resume",
        ),
        (("--run-dir", "none"), "GAME is missing, and there is no run to resume in none; give one"),
        (
            ("othello", "--config", "a.toml"),
            "GAME is othello, but a.toml sets tic_tac_toe; omit GAME, or change the file",
        ),
        (("--config", "a.toml", "--preset", "gpu"), "--preset is gpu, but a.toml sets tiny; omit --preset"),
        (("--config", "none.toml"), "none.toml cannot be read: No such file or directory"),
        (
            ("tic_tac_toe", "--seed", "-1"),
            "seed -1 is out of range; give one from 0 to 2^63 - 1, or none for a random one",
        ),
    ],
)
def test_a_contradictory_run_request_is_rejected_with_one_error_line(zerofleet, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text('game = "tic_tac_toe"\npreset = "tiny"\n')
    outcome = zerofleet("run", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {message}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.toml"]


def test_game_and_preset_may_repeat_those_of_the_experiment_file(zerofleet, tmp_path):
    (tmp_path / "a.toml").write_text('game = "tic_tac_toe"\npreset = "tiny"\n')
    words = ("tic_tac_toe", "--preset", "tiny", "--config", str(tmp_path / "a.toml"), "--save-config", str(tmp_path / "b.toml"))
    assert zerofleet("run", *words).code == 0


@pytest.fixture
def begun(tmp_path):
    """Return the directory of a run with settings of its own."""
    experiment = Experiment("tic_tac_toe", "tiny", 5, {}, {"network.blocks": "3", "search.simulations": "29"})
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5) as directory:
        directory.paths.experiment.write_text(commented(experiment))
    return tmp_path / "run"


def test_a_resumed_run_has_its_own_settings_apart_from_those_of_the_command(zerofleet, begun, tmp_path):
    words = ("--run-dir", str(begun), "--set", "search.simulations=31", "--save-config", str(tmp_path / "b.toml"))
    assert zerofleet("run", *words).code == 0
    resumed = read_experiment(tmp_path / "b.toml")
    chosen = resumed.build_preset()
    assert (resumed.game, resumed.preset, resumed.seed) == ("tic_tac_toe", "tiny", 5)
    assert (chosen.network.blocks, chosen.search.simulations) == (3, 31)


def test_a_resumed_run_keeps_its_devices_until_others_are_given(zerofleet, tmp_path):
    experiment = Experiment("tic_tac_toe", "tiny", 5, devices=("cpu", "cpu"))
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5) as directory:
        directory.paths.experiment.write_text(commented(experiment))
    begin = ("--run-dir", str(tmp_path / "run"))
    assert zerofleet("run", *begin, "--save-config", str(tmp_path / "b.toml")).code == 0
    assert zerofleet("run", *begin, "--devices", "cpu", "--save-config", str(tmp_path / "c.toml")).code == 0
    assert [read_experiment(tmp_path / name).devices for name in ("b.toml", "c.toml")] == [("cpu", "cpu"), ("cpu",)]
    outcome = zerofleet("run", *begin, "--workers", "1", "--for", "1s")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        "error: --workers 1: devices cpu,cpu are 2 servers, and each worker uses one; want at least 2"
    )


def test_an_experiment_file_replaces_the_settings_of_a_resumed_run(zerofleet, begun, tmp_path):
    (tmp_path / "a.toml").write_text('game = "tic_tac_toe"\npreset = "tiny"\n[search]\nsimulations = 30\n')
    words = ("--config", str(tmp_path / "a.toml"), "--run-dir", str(begun), "--save-config", str(tmp_path / "b.toml"))
    assert zerofleet("run", *words).code == 0
    chosen = read_experiment(tmp_path / "b.toml").build_preset()
    assert (chosen.network.blocks, chosen.search.simulations) == (1, 30)


@pytest.mark.parametrize(
    ("words", "message"),
    [(("connect_four",), "a run of tic_tac_toe, not of connect_four"), (("--preset", "laptop"), "preset tiny")],
)
def test_a_run_is_not_resumed_as_another(zerofleet, begun, words, message):
    outcome = zerofleet("run", *words, "--run-dir", str(begun), "--for", "1s")
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


def test_a_run_with_parameters_is_not_resumed_as_another_game(zerofleet, tmp_path):
    experiment = Experiment("connect_four", "tiny", 5, {"rows": "5"})
    with RunDirectory.create_or_open(tmp_path / "run", "connect_four", {"rows": "5"}, preset="tiny", seed=5) as directory:
        directory.paths.experiment.write_text(commented(experiment))
    outcome = zerofleet("run", "tic_tac_toe", "--run-dir", str(tmp_path / "run"), "--for", "1s")
    assert (outcome.code, outcome.out) == (2, "")
    assert "is a run of connect_four rows=5, not of tic_tac_toe" in outcome.err


def test_a_run_without_an_experiment_file_is_resumed_with_game_parameters_preset_and_seed_of_its_header(zerofleet, tmp_path):
    with RunDirectory.create_or_open(tmp_path / "run", "connect_four", {"rows": "5"}, preset="tiny", seed=5):
        pass
    outcome = zerofleet("run", "--run-dir", str(tmp_path / "run"), "--save-config", str(tmp_path / "b.toml"))
    assert (outcome.code, outcome.err) == (0, "")
    resumed = read_experiment(tmp_path / "b.toml")
    assert (resumed.game, resumed.parameters, resumed.preset, resumed.seed) == ("connect_four", {"rows": "5"}, "tiny", 5)


def test_a_run_whose_experiment_file_is_a_pipe_is_refused_without_waiting(zerofleet, begun):
    file = begun / "experiment.toml"
    file.unlink()
    os.mkfifo(file)
    outcome = zerofleet("run", "--run-dir", str(begun))
    assert outcome.code == 2
    assert outcome.err.splitlines() == [f"error: {file} cannot be read: Not a regular file; --config takes an experiment file"]


def test_a_run_whose_file_has_a_setting_that_is_gone_names_file_and_setting(zerofleet, begun):
    file = begun / "experiment.toml"
    file.write_text(file.read_text().replace("[search]", "[search]\nsimulation_count = 5"))
    outcome = zerofleet("run", "--run-dir", str(begun), "--for", "1s")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"error: {file}: search.simulation_count: no such setting; did you mean search.simulations?")


def test_a_run_that_needs_a_token_is_not_resumed_without_it(zerofleet, tmp_path):
    experiment = Experiment("tic_tac_toe", "tiny", 5, {}, {"trainer.token": "hush"})
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5) as directory:
        directory.paths.experiment.write_text(commented(experiment))
    for words in (("--run-dir", str(tmp_path / "run")), ("--config", str(tmp_path / "run" / "experiment.toml"))):
        outcome = zerofleet("run", *words, "--for", "1s")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "lacks secret settings" in outcome.err
        assert "(--set trainer.token=VALUE)" in outcome.err


def test_save_config_in_a_missing_folder_names_the_file_as_it_was_given(zerofleet, tmp_path):
    path = tmp_path / "none" / "my.toml"
    outcome = zerofleet("run", "tic_tac_toe", "--save-config", str(path))
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {path} cannot be written: {path.parent} is not a directory")
