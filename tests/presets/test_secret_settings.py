"""Secret settings of a run: only their names are stored, and a run is not resumed without them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from zerofleet.errors import ConfigurationError
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment, read_experiment
from zerofleet.supervisor import RunRequest

FIRST = RunRequest(
    "tic_tac_toe",
    Path("runs/first"),
    preset="tiny",
    overrides={
        "trainer.token": "hush-1",
        "selfplay_worker.stream_url": "redis://worker:hush-2@queue:6379/0",
        "trainer.log_level": "debug",
    },
).with_environment(
    {
        "ZEROFLEET_METRICS_TOKEN": "hush-3",
        "ZEROFLEET_TOKENS_FILE": "/run/secrets/tokens",
        "ZEROFLEET_PAGE_TOKEN": "hush-4",
        "ZEROFLEET_GAMES_TOKEN": "",
        "ZEROFLEET_TRANSPORT": "grpc",
        "GITHUB_TOKEN": "hush-5",
    }
)
NAMES = ("ZEROFLEET_METRICS_TOKEN", "ZEROFLEET_TOKENS", "selfplay_worker.stream_url", "trainer.token")
GIVEN = {"trainer.token": "a", "selfplay_worker.stream_url": "redis://worker:b@queue:6379/0"}
AROUND = {"ZEROFLEET_METRICS_TOKEN": "c", "ZEROFLEET_TOKENS_FILE": "/run/secrets/tokens"}


def resumed(tmp_path: Path, overrides: dict[str, str], variables: dict[str, str]) -> RunRequest:
    """Return the request to resume the first run from its file, with other secret settings."""
    path = tmp_path / "experiment.toml"
    path.write_text(commented(FIRST.experiment))
    kept = read_experiment(path)
    asked = dataclasses.replace(FIRST, run_dir=tmp_path, overrides=overrides, configured=kept.settings, secrets=kept.secrets)
    return asked.with_environment(variables)


def test_an_experiment_stores_the_names_of_its_secret_settings_and_no_value(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(commented(FIRST.experiment))
    assert "hush" not in path.read_text()
    assert "/run/secrets" not in path.read_text()
    kept = read_experiment(path)
    assert kept.secrets == NAMES
    assert kept.settings["trainer.log_level"] == "debug"
    assert kept.settings.keys().isdisjoint(NAMES)


def test_a_run_is_not_resumed_without_a_secret_setting_of_its_first_command(tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        resumed(tmp_path, {"selfplay_worker.stream_url": "redis://worker:b@queue:6379/0"}, AROUND)
    assert str(refused.value) == (
        f"{tmp_path}/experiment.toml: this command lacks secret settings of the experiment, whose values are not stored; give "
        "them again (--set trainer.token=VALUE), or remove them from `secrets` in the file to go on without"
    )


def test_every_missing_secret_setting_is_named_with_its_place(tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        resumed(tmp_path, {}, {"ZEROFLEET_TOKENS": ""})
    assert (
        "(ZEROFLEET_METRICS_TOKEN=VALUE in the environment, ZEROFLEET_TOKENS=VALUE in the environment, "
        "--set selfplay_worker.stream_url=VALUE, --set trainer.token=VALUE)"
    ) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_run_is_resumed_with_its_secret_settings_given_again(tmp_path):
    assert resumed(tmp_path, GIVEN, AROUND).experiment.secrets == NAMES


@pytest.mark.parametrize("variable", ["ZEROFLEET_TOKEN", "zerofleet_token", "ZEROFLEET_TOKEN_FILE"])
def test_a_variable_of_every_service_replaces_the_setting_of_one(tmp_path, variable):
    rest = {name: value for name, value in GIVEN.items() if name != "trainer.token"}
    assert resumed(tmp_path, rest, {**AROUND, variable: "d"}).overrides == rest


def test_a_run_whose_list_of_secret_settings_was_emptied_goes_on_without(tmp_path):
    path = tmp_path / "experiment.toml"
    text = commented(FIRST.experiment)
    path.write_text("\n".join("secrets = []" if line.startswith("secrets = ") else line for line in text.splitlines()))
    assert read_experiment(path).secrets == ()


def test_a_run_without_secret_settings_has_no_list_of_them():
    assert "secrets" not in commented(Experiment("tic_tac_toe", "tiny", settings={"trainer.log_level": "debug"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('secrets = "trainer.token"', 'secrets = "trainer.token" is a string; want an array'),
        ("secrets = [3]", "secrets: entry = 3 is an integer; want a string"),
    ],
)
def test_a_malformed_list_of_secret_settings_is_refused(tmp_path, text, message):
    path = tmp_path / "my.toml"
    path.write_text(f'game = "othello"\n{text}\n')
    with pytest.raises(ConfigurationError, match=message):
        read_experiment(path)


def test_the_command_of_a_request_shows_no_secret_setting():
    assert FIRST.command() == "zerofleet run tic_tac_toe --preset tiny --set trainer.log_level=debug --run-dir runs/first"
