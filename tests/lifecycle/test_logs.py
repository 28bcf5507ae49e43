"""Log lines: one event, its fields, in the form the reader wants."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from zerofleet.service import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, kept = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**kept)


def test_json_log_lines_contain_event_fields_service_and_utc_time(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json", "trainer")
    structlog.get_logger().info("game.finished", plies=42)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["plies"], line["service"], line["level"]) == ("game.finished", 42, "trainer", "info")
    assert line["timestamp"].endswith("Z")


def test_log_lines_below_the_level_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "json", "trainer")
    structlog.get_logger().info("small")
    structlog.get_logger().warning("big")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["big"]


def test_log_lines_of_other_libraries_have_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json", "trainer")
    logging.getLogger("elsewhere").warning("disk %s", "slow")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["service"]) == ("disk slow", "trainer")


def test_automatic_logs_are_json_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "auto", "trainer")
    structlog.get_logger().info("a")
    assert json.loads(capsys.readouterr().err)["event"] == "a"


def test_an_exception_is_logged_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json", "trainer")
    try:
        raise ValueError("inside")
    except ValueError:
        structlog.get_logger().exception("work.failed")
    line = json.loads(capsys.readouterr().err)
    assert "ValueError: inside" in line["exception"]


def test_the_console_log_format_is_readable_text(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "console", "trainer")
    structlog.get_logger().info("game.finished", plies=42)
    text = capsys.readouterr().err
    assert "game.finished" in text
    assert "plies=42" in text
