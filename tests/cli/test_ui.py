"""`zerofleet ui` starts the web application as a process, after a check of what it is to show."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import ClassVar

import pytest

from zerofleet.cli.commands import ui


class Started:
    """Process that ends at once; remembers its command."""

    commands: ClassVar[list[list[str]]] = []

    def __init__(self, command: list[str]) -> None:
        self.commands.append(command)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None: ...

    def wait(self) -> int:
        return 0


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


def test_the_service_is_started_with_the_folder_and_the_port(zerofleet, tmp_path, monkeypatch):
    monkeypatch.setattr(ui.subprocess, "Popen", Started)
    outcome = zerofleet("ui", "--runs", str(tmp_path), "--port", "9000")
    assert (outcome.code, "http://127.0.0.1:9000/" in outcome.err) == (0, True)
    assert Started.commands[-1][:5] == [sys.executable, "-m", "ui", "--runs", str(tmp_path)]


@pytest.mark.slow
def test_the_settings_of_the_service_accept_what_the_command_gives(tmp_path):
    words = ["--runs", str(tmp_path), "--page-host", "127.0.0.1", "--page-port", "0", "--log-level", "info", "--print-config"]
    shown = subprocess.run([sys.executable, "-m", "ui", *words], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) in shown
