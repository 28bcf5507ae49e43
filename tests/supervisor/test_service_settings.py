"""Settings of services in a request: each service checks its own before a run is created."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from selfplay_worker.settings import WorkerSettings
from trainer.settings import TrainerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.service.settings import ServiceSettings
from zerofleet.supervisor import RunRequest
from zerofleet.supervisor.service_settings import StreamPlace, require_one_stream, require_service_settings
from zerofleet.supervisor.supervisor import supervising

RUN = Path("/runs/r")
SHARED = {
    "selfplay_worker.stream_url": "redis://worker:hush@queue:6379/0",
    "trainer.stream_url": "redis://trainer@QUEUE?idle_s=9",
}


@pytest.mark.slow
def test_a_misspelt_setting_of_a_service_creates_no_run_and_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    request = RunRequest("tic_tac_toe", tmp_path / "runs" / "r", preset="tiny", overrides={"trainer.log_leve": "debug"})
    with pytest.raises(ConfigurationError) as refused, supervising(request, Console(file=io.StringIO())):
        pass
    assert str(refused.value) == "trainer: unknown setting --set trainer.log_leve; did you mean --set trainer.log_level?"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_wrong_setting_of_a_service_in_an_experiment_file_is_reported_with_the_file(tmp_path: Path) -> None:
    request = RunRequest(
        "tic_tac_toe", tmp_path / "r", config=tmp_path / "a.toml", configured={"gatekeeper.max_matches_kept": "1"}
    )
    with pytest.raises(ConfigurationError) as refused:
        require_service_settings(request, dict(os.environ))
    assert str(refused.value).startswith(f"{tmp_path / 'a.toml'}: gatekeeper: unknown setting gatekeeper.max_matches_kept; ")
    assert "--set" not in str(refused.value)


@pytest.mark.slow
def test_valid_settings_of_services_are_accepted_whatever_the_preset_and_the_parameters(tmp_path: Path) -> None:
    request = RunRequest(
        "connect_four",
        tmp_path / "r",
        parameters={"rows": "4"},
        overrides={"search.simulations": "9", "trainer.log_level": "debug", "selfplay_worker.selfplay.slots": "8"},
    )
    require_service_settings(request, dict(os.environ))
    assert not (tmp_path / "r").exists()


def test_a_request_without_settings_of_services_starts_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    require_service_settings(RunRequest("tic_tac_toe", tmp_path, overrides={"search.simulations": "9"}), {})
    with pytest.raises(AssertionError):
        require_service_settings(RunRequest("tic_tac_toe", tmp_path, overrides={"trainer.log_level": "debug"}), {})


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({}, {}),
        ({}, {"ZEROFLEET_STREAM_URL": "redis://queue/0", "ZEROFLEET_STREAM_NAME": "mine"}),
        (SHARED, {}),
        ({"trainer.stream_url": "redis://trainer@queue/0"}, {"ZEROFLEET_STREAM_URL": "redis://worker@queue"}),
        ({"trainer.stream_url": f"sqlite:///{RUN}/games.db?high_water=5000"}, {}),
        ({"trainer.stream_url": "sqlite:///a b.db"}, {"ZEROFLEET_STREAM_URL": "sqlite:///a%20b.db"}),
        ({"trainer.stream-name": "mine", "selfplay_worker.stream_name": "mine"}, {}),
        ({"trainer.stream_url": "redis://localhost"}, {"ZEROFLEET_STREAM_URL": "redis://127.0.0.1"}),
        ({"trainer.stream_url": "rediss://queue:6380/2"}, {"ZEROFLEET_STREAM_URL": "redis://queue?db=2"}),
    ],
)
def test_workers_and_trainer_with_one_stream_are_accepted_whatever_users_and_options(
    settings: dict[str, str], environment: dict[str, str]
) -> None:
    require_one_stream(RunRequest("tic_tac_toe", RUN, overrides=settings), environment)


@pytest.mark.parametrize(
    ("settings", "environment", "named"),
    [
        ({"trainer.stream_url": "redis://queue/0"}, {}, "selfplay_worker.stream_url is sqlite:////runs/r/games.db"),
        ({"selfplay_worker.stream_url": "redis://queue/0"}, {}, "trainer.stream_url is sqlite:////runs/r/games.db"),
        (SHARED | {"trainer.stream_url": "redis://queue/1"}, {}, "trainer.stream_url is redis://queue/1"),
        (dict.fromkeys(SHARED, "unix:///q.sock") | {"trainer.stream_url": "unix:///q.sock?db=1"}, {}, "is unix:///q.sock?db=1"),
        (SHARED | {"trainer.stream_url": "redis://queue?db=1"}, {}, r"trainer.stream_url is redis://queue?db=1"),
        (SHARED | {"trainer.stream_url": "redis://queue:6380/0"}, {}, "trainer.stream_url is redis://queue:6380/0"),
        ({"trainer.stream_url": "redis://other"}, {"ZEROFLEET_STREAM_URL": "redis://queue"}, "stream_url is redis://queue and"),
        ({"trainer.stream_url": "sqlite:///elsewhere.db"}, {}, "trainer.stream_url is sqlite:///elsewhere.db"),
        ({"trainer.stream_url": "redis://[queue"}, {}, "trainer.stream_url is redis://[queue"),
        ({"selfplay_worker.stream_name": "mine"}, {}, "selfplay_worker.stream_name is mine and trainer.stream_name is games"),
    ],
)
def test_workers_and_trainer_with_two_streams_are_refused_with_both(
    settings: dict[str, str], environment: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_one_stream(RunRequest("tic_tac_toe", RUN, overrides=settings), environment)
    assert named in str(refused.value)
    assert "want one stream, so set both (--set selfplay_worker.stream_" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.slow
def test_a_run_whose_games_would_not_reach_the_trainer_is_not_created(tmp_path: Path) -> None:
    request = RunRequest("tic_tac_toe", tmp_path / "r", preset="tiny", overrides={"trainer.stream_url": "redis://queue/0"})
    with (
        pytest.raises(ConfigurationError, match="would not reach the trainer"),
        supervising(request, Console(file=io.StringIO())),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("service", [WorkerSettings, TrainerSettings])
def test_the_compared_settings_are_those_of_worker_and_trainer(service: type[ServiceSettings]) -> None:
    for name in StreamPlace.model_fields.keys() - ServiceSettings.model_fields.keys():
        assert service.model_fields[name].default == StreamPlace.model_fields[name].default
