"""Settings of services in a request: each service checks its own before a run is created."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet.errors import ConfigurationError
from zerofleet.supervisor import RunRequest
from zerofleet.supervisor.service_settings import require_service_settings
from zerofleet.supervisor.supervisor import supervising


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
