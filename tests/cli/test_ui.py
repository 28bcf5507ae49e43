"""`zerofleet ui` starts the web application as a process, after a check of what it is to show."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from zerofleet.cli.commands import ui
from zerofleet.storage.runs import RunDirectory


class Started:
    """Process that is told what to do at each wait: "listens", "runs", "interrupted" or an exit code; remembers its command."""

    commands: ClassVar[list[list[str]]] = []
    ends: ClassVar[list[str]] = []
    course: ClassVar[list[str | int]] = []

    def __init__(self, command: list[str], *, process_group: int) -> None:
        self.commands.append(command)
        self.ends.clear()
        self.announce = Path(command[command.index("--announce") + 1])
        assert process_group == 0

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None: ...

    def send_signal(self, number: signal.Signals) -> None:
        self.ends.append(number.name)

    def wait(self, timeout: float | None) -> int:
        match step := self.course.pop(0):
            case "listens":
                self.announce.write_text('{"address": "http://127.0.0.1:9000/"}')
                raise subprocess.TimeoutExpired("ui", timeout or 0)
            case "runs":
                raise subprocess.TimeoutExpired("ui", timeout or 0)
            case "interrupted":
                raise KeyboardInterrupt
        return int(step)


@pytest.fixture
def started(monkeypatch):
    """Return a function that sets the course of the service."""

    def set_course(*course: str | int) -> type[Started]:
        monkeypatch.setattr(Started, "course", list(course))
        return Started

    monkeypatch.setattr(ui.subprocess, "Popen", Started)
    return set_course


def test_a_folder_that_is_missing_and_a_directory_without_a_run_are_refused(zerofleet, tmp_path):
    missing = zerofleet("ui", "--runs", str(tmp_path / "nothing"))
    assert (missing.code, "there is no folder" in missing.err) == (2, True)
    empty = zerofleet("ui", "--run-dir", str(tmp_path))
    assert (empty.code, "is not a run directory" in empty.err) == (2, True)


def test_a_missing_extra_is_named_with_its_command(zerofleet, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused = zerofleet("ui", "--runs", str(tmp_path))
    assert refused.code == 2
    assert "pip install 'zerofleet[ui]'" in refused.err


def test_the_service_is_started_with_the_folder_and_the_port(zerofleet, tmp_path, started):
    started("runs", "listens", 0)
    outcome = zerofleet("ui", "--runs", str(tmp_path), "--port", "9000")
    assert (outcome.code, outcome.err) == (0, "serving http://127.0.0.1:9000/ until Ctrl-C\n")
    assert Started.commands[-1][:5] == [sys.executable, "-m", "ui", "--runs", str(tmp_path)]


def test_settings_of_the_environment_are_left_to_the_service(zerofleet, tmp_path, started, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_PAGE_PORT", "9000")
    monkeypatch.setenv("ZEROFLEET_PAGE_HOST", "::1")
    started("listens", 0)
    assert zerofleet("ui", "--runs", str(tmp_path)).code == 0
    assert not {"--page-port", "--page-host", "--costs"} & set(Started.commands[-1])


@pytest.mark.parametrize(("environment", "given"), [("", ["--log-level", "warning"]), ("debug", [])])
def test_the_log_is_of_warnings_unless_the_environment_sets_its_level(
    zerofleet, tmp_path, started, monkeypatch, environment, given
):
    monkeypatch.setenv("ZEROFLEET_LOG_LEVEL", environment)
    started("listens", 0)
    assert zerofleet("ui", "--runs", str(tmp_path)).code == 0
    assert [word for word in Started.commands[-1] if word in {"--log-level", "warning"}] == given


@pytest.mark.parametrize(
    ("words", "environment", "shown"),
    [
        ([], {"ZEROFLEET_RUNS": "folder"}, ["--runs", "folder"]),
        ([], {"ZEROFLEET_RUN_DIR": "one"}, ["--run-dir", "one", "--runs", ""]),
        ([], {"ZEROFLEET_RUNS": "folder", "ZEROFLEET_RUN_DIR": "one"}, ["--runs", "folder"]),
        (["--runs", "folder"], {"ZEROFLEET_RUN_DIR": "one"}, ["--runs", "folder"]),
        (["--run-dir", "one"], {"ZEROFLEET_RUNS": "folder"}, ["--run-dir", "one", "--runs", ""]),
    ],
)
def test_the_environment_names_the_runs_that_no_option_names(
    zerofleet, tmp_path, started, monkeypatch, words, environment, shown
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with RunDirectory.create_or_open(tmp_path / "one", "tic_tac_toe", {}, preset="tiny", seed=1):
        pass
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    started("listens", 0)
    assert zerofleet("ui", *words).code == 0
    assert Started.commands[-1][3 : 3 + len(shown)] == shown


def test_a_folder_of_the_environment_that_is_missing_is_refused(zerofleet, tmp_path, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_RUNS", str(tmp_path / "nothing"))
    refused = zerofleet("ui")
    assert (refused.code, f"there is no folder {tmp_path / 'nothing'}" in refused.err) == (2, True)


def test_the_address_is_named_only_after_the_service_listens(zerofleet, tmp_path, started):
    started("runs", 2)  # as where the port is in use
    outcome = zerofleet("ui", "--runs", str(tmp_path), "--port", "9000")
    assert (outcome.code, outcome.err) == (2, "")


@pytest.mark.parametrize(("course", "code"), [(("runs", "interrupted", -15), 130), (("listens", "interrupted", 0), 0)])
def test_ctrl_c_ends_the_service_in_order_and_a_start_with_code_130(zerofleet, tmp_path, started, course, code):
    ends = started(*course).ends
    outcome = zerofleet("ui", "--runs", str(tmp_path))
    assert (outcome.code, ends) == (code, ["SIGTERM"])
    assert "Traceback" not in outcome.err


def test_a_second_ctrl_c_cuts_the_drains_of_the_service_short(zerofleet, tmp_path, started):
    ends = started("listens", "interrupted", "interrupted", 1).ends
    assert zerofleet("ui", "--runs", str(tmp_path)).code == 1
    assert ends == ["SIGTERM", "SIGINT"]


@pytest.mark.slow
def test_a_port_in_use_is_the_only_message(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["ui", "--runs", str(tmp_path), "--port", str(port)]
        program = [sys.executable, "-c", "from zerofleet.cli import main; main()"]
        ended = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert (
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another (`zerofleet ui --port N`)"
        in ended.stderr
    )
    assert "serving" not in ended.stderr


@pytest.mark.slow
def test_the_settings_of_the_service_accept_what_the_command_gives(tmp_path):
    words = ["--run-dir", str(tmp_path), "--runs", "", "--page-host", "127.0.0.1", "--page-port", "0", "--log-level", "info"]
    command, folder = [sys.executable, "-m", "ui", *words, "--print-config"], {"ZEROFLEET_RUNS": str(tmp_path / "folder")}
    environment = {**os.environ, **folder}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert str(tmp_path) in shown
    assert folder["ZEROFLEET_RUNS"] not in shown
