"""Announcement of compilation to a person at a terminal."""

from __future__ import annotations

import threading

from numba.core import event

from zerofleet.cli import compilation


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
    assert second.startswith("compiling tic_tac_toe: 1 functions in ")


def test_nothing_is_announced_into_a_pipe(monkeypatch):
    monkeypatch.setattr(compilation, "_listening", [])
    compilation.announce_compilation("tic_tac_toe")
    assert compilation._listening == []
