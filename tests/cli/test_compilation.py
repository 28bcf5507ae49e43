"""Announcement of compilation to a person at a terminal."""

from __future__ import annotations

import importlib
import threading

import pytest
from numba.core import event

import games
from zerofleet.cli import compilation
from zerofleet.cli.bench import perft
from zerofleet.errors import InvalidRequest

report_command = importlib.import_module("zerofleet.cli.report.command")
learn_command = importlib.import_module("zerofleet.cli.bench.learn.command")
rhombus_search = importlib.import_module("zerofleet.cli.bench.rhombus_search")


def told_while_compiling(monkeypatch, *, wanted):
    """Return what is noted between the start and the end of a compilation that lasts until `wanted` notes."""
    notes, enough = [], threading.Event()

    def note(text):
        notes.append(text)
        if len(notes) == wanted:
            enough.set()

    monkeypatch.setattr(compilation.screen, "note", note)
    monkeypatch.setattr(compilation, "_TICK_S", 0.01)
    monkeypatch.setattr(compilation, "PATIENCE_S", 0.02)
    monkeypatch.setattr(compilation, "TELL_EVERY_S", 0.02)
    announcer = compilation._Announcer("tic_tac_toe")
    with event.install_listener("numba:compile", announcer), event.trigger_event("numba:compile"):
        with event.trigger_event("numba:compile"):
            pass
        assert enough.wait(20)
    return notes


def test_a_long_compilation_is_announced_once_and_then_its_progress(monkeypatch):
    first, second, *_ = told_while_compiling(monkeypatch, wanted=2)
    assert first.startswith("compiling rules and search of tic_tac_toe for this machine, once")
    assert second.startswith("compiling tic_tac_toe: 1 function in ")


def test_each_game_of_a_command_is_announced_under_its_name(monkeypatch):
    monkeypatch.setattr(compilation, "_listening", [])
    monkeypatch.setattr(compilation.event, "register", lambda kind, listener: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    compilation.announce_compilation("tic_tac_toe")
    compilation.announce_compilation("othello")
    (announcer,) = compilation._listening
    announcer.on_start(None)
    announcer.on_end(None)
    compilation.announce_compilation("othello")
    assert (announcer._game, announcer._functions) == ("othello", 1)
    compilation.announce_compilation("abalone")
    assert (announcer._game, announcer._functions) == ("abalone", 0)


@pytest.fixture
def announced(monkeypatch):
    """Return the list of games whose compilation commands announce."""
    names = []
    for module in (compilation, report_command, learn_command, rhombus_search):
        monkeypatch.setattr(module, "announce_compilation", names.append)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("words", [("ladder", "--games", "0", "--rungs", "random"), ("behaviour", "lines"), ("curves",)])
def test_a_command_that_takes_its_game_from_a_run_announces_it(zerofleet, announced, run_with_champion, words):
    zerofleet(*words, "--run-dir", str(run_with_champion))
    assert announced == ["tic_tac_toe"]


@pytest.mark.slow
def test_report_announces_the_game_of_its_run(zerofleet, announced, run_with_champion, tmp_path):
    assert zerofleet("report", str(run_with_champion), "--out", str(tmp_path / "run.html")).code == 0
    assert announced == ["tic_tac_toe"]


def test_a_benchmark_of_every_game_announces_each(announced, monkeypatch):
    monkeypatch.setattr(perft, "_measure", lambda game, depth: {"counts": [1], "finished": [1], "seconds": 1.0})
    perft.run_all(0.0)
    assert announced == list(games.available())


def test_benchmarks_with_a_fixed_or_chosen_game_announce_it(zerofleet, announced, monkeypatch, tmp_path):
    def stop(*arguments, **options):
        raise InvalidRequest("enough for this test")

    monkeypatch.setattr(rhombus_search, "sample_positions", stop)
    assert zerofleet("bench", "rhombus_search").code == 2
    monkeypatch.setattr(learn_command, "kept_positions", stop)
    assert zerofleet("bench", "learn", "tic_tac_toe", "--samples", "10", "--preset", "tiny").code == 2
    assert announced == ["chinese_checkers_rhombus", "tic_tac_toe"]


def test_nothing_is_announced_into_a_pipe(monkeypatch):
    monkeypatch.setattr(compilation, "_listening", [])
    compilation.announce_compilation("tic_tac_toe")
    assert compilation._listening == []
