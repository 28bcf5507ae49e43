"""The history of a run in `metrics/run.jsonl`: lines cut short, and a path that is no file."""

from __future__ import annotations

import json
import os
import tracemalloc
from types import SimpleNamespace

import pytest

from zerofleet.supervisor import history
from zerofleet.supervisor.history import History


@pytest.fixture(autouse=True)
def _rows(monkeypatch):
    monkeypatch.setattr(history, "row", lambda now: {"games": now.games})


def test_a_line_cut_short_by_a_crash_is_removed_at_the_start(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"games": 1}\n{"ga')
    History(path, print).write(SimpleNamespace(games=2))
    assert [json.loads(line)["games"] for line in path.read_text().splitlines()] == [1, 2]


def test_the_start_reads_the_end_of_a_long_history_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"games": 1}\n' * (1 << 21) + b'{"ga')
    tracemalloc.start()
    try:
        History(path, print)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size == len(b'{"games": 1}\n') << 21
    assert peak_bytes < path.stat().st_size / 4


def test_a_pipe_is_reported_once_and_not_waited_for(tmp_path):
    path, told = tmp_path / "run.jsonl", []
    os.mkfifo(path)
    written = History(path, told.append)
    for games in (1, 2):
        written.write(SimpleNamespace(games=games))
    assert len(told) == 1
    assert "the run continues without its history" in told[0]
    path.unlink()
    written.write(SimpleNamespace(games=3))
    assert json.loads(path.read_text())["games"] == 3


def test_a_line_cut_short_by_a_full_disk_costs_no_later_line(tmp_path, monkeypatch):
    path, whole = tmp_path / "run.jsonl", history.append_plain

    def fills_up(path, text):
        whole(path, text[:6])
        raise OSError(28, "No space left on device")

    written = History(path, lambda text: None)
    written.write(SimpleNamespace(games=1))
    monkeypatch.setattr(history, "append_plain", fills_up)
    written.write(SimpleNamespace(games=2))
    monkeypatch.setattr(history, "append_plain", whole)
    written.write(SimpleNamespace(games=3))
    assert [json.loads(line)["games"] for line in path.read_text().splitlines()] == [1, 3]
