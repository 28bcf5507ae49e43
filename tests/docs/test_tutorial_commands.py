"""Runner of the tutorials' commands: which it executes, with which sizes, and that it reports those that fail."""

from __future__ import annotations

import re

import pytest

from tests.docs import try_commands
from tests.docs.try_commands import ELSEWHERE, ENTERED, PAGES, SERVERS, SMALLER, Folder, reason_elsewhere, smaller, steps_of

COMMANDS = [(page, step.text) for page in PAGES for step in steps_of(page) if not step.name]


@pytest.mark.parametrize("pattern", [*(one for one, _ in (*SMALLER, *ELSEWHERE)), *SERVERS, *ENTERED])
def test_every_rule_of_the_runner_applies_to_some_command_of_the_pages(pattern):
    assert any(re.search(pattern, command) for _, command in COMMANDS)


def test_most_commands_are_executed_and_those_left_out_have_a_reason():
    executed = [command for page, command in COMMANDS if not reason_elsewhere(page, command)]
    assert len(executed) > len(COMMANDS) / 2
    assert all(not re.search(r"^(docker|kubectl|make) ", command) for command in executed)


def test_commands_are_shortened():
    assert smaller("zerofleet run tic_tac_toe --preset tiny --for 5m") == "zerofleet run tic_tac_toe --preset tiny --for 2m"
    assert smaller("zerofleet ui") == "zerofleet ui --port 0"


def test_a_program_of_a_page_is_a_file_of_its_folder():
    assert "library.py" in [step.name for step in steps_of("docs/tutorials/programmer.md")]


def test_a_command_that_fails_is_reported_with_its_output(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo right\n$ echo wrong >&2; exit 3\n$ docker ps\n```\n")
    monkeypatch.setattr(try_commands, "ROOT", tmp_path)
    first, second, third = try_commands.try_page("page.md")
    assert first.endswith("echo right")
    assert second.startswith("FAILED")
    assert "exit code 3" in second
    assert "wrong" in second
    assert third.startswith("left out")


def test_placeholders_have_the_values_of_the_commands_before(tmp_path):
    (tmp_path / "backups" / "2026-01-01").mkdir(parents=True)
    (tmp_path / "backups" / "2026-01-02").mkdir()
    assert Folder(tmp_path, 1).execute("test backups/TIME = backups/2026-01-02") == ""


def test_a_placeholder_without_a_value_is_a_fault_of_its_command(tmp_path):
    assert "has no value" in Folder(tmp_path, 1).execute("zerofleet restore backups/TIME runs/restored")
