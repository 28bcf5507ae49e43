"""Compilation in a process: what the meter counts, and the note for a supervisor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from numba.core import event

from zerofleet.service import compilation
from zerofleet.service.compilation import CompilationMeter, compilation_meter
from zerofleet.service.compilation_note import STALE_S, Compilation, note_path, read_note, write_note


class Compiler:
    """Compiler with a clock, whose functions the meter hears of."""

    def __init__(self) -> None:
        self.now_s, self.begun = 100.0, 0
        self.meter = CompilationMeter(clock=lambda: self.now_s, began=self._begin)

    def _begin(self) -> None:
        self.begun += 1

    def compile(self, took_s: float, inner: int = 0) -> None:
        """Compile a function that compiles `inner` others first."""
        self.start()
        for _ in range(inner):
            self.start()
            self.end()
        self.now_s += took_s
        self.end()

    def start(self) -> None:
        self.meter.on_start(event.Event("numba:compile", event.EventStatus.START))

    def end(self) -> None:
        self.meter.on_end(event.Event("numba:compile", event.EventStatus.END))


def test_functions_that_follow_one_another_are_one_compilation() -> None:
    compiler = Compiler()
    assert compiler.meter.now() is None
    compiler.compile(2.0, inner=3)
    compiler.now_s += 0.5
    assert compiler.meter.now() == Compilation(4, 2.5)
    compiler.start()
    compiler.now_s += 8.0
    assert compiler.meter.now() == Compilation(4, 10.5)
    compiler.end()
    compiler.now_s += 1.0
    assert compiler.meter.now() is None
    compiler.compile(0.25)
    assert compiler.meter.now() == Compilation(1, 0.25)
    assert compiler.begun == 2


def test_the_meter_of_the_process_hears_of_its_compiler() -> None:
    meter = compilation_meter()
    with event.trigger_event("numba:compile"):
        assert meter.now() is not None
    assert compilation_meter() is meter


def test_a_note_is_written_while_something_compiles_and_removed_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce = tmp_path / "worker-0.json"
    path = note_path(announce)
    states = iter([Compilation(0, 0.2), Compilation(9, 1.2), Compilation(30, 5.0), None])
    seen: list[Compilation | None] = []
    monkeypatch.setattr(compilation.time, "sleep", lambda _s: seen.append(read_note(path, os.getpid())))
    meter = CompilationMeter()
    monkeypatch.setattr(meter, "now", lambda: next(states))
    compilation._report(meter, path)
    assert seen == [None, Compilation(9, 1.2), Compilation(30, 5.0)]  # the first second is not worth a note
    assert not path.exists()


def test_a_full_disk_costs_the_note_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compilation, "write_note", refuse)
    meter = CompilationMeter()
    monkeypatch.setattr(meter, "now", lambda: Compilation(9, 2.0))
    compilation._report(meter, tmp_path / "worker-0.compiling")
    assert list(tmp_path.iterdir()) == []


def test_only_a_recent_note_of_the_process_counts(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.compiling"
    assert read_note(path, 5) is None
    write_note(path, Compilation(34, 12.0), pid=5)
    assert read_note(path, 5) == Compilation(34, 12.0)
    assert read_note(path, 6) is None
    assert read_note(path, None) is None
    old_s = path.stat().st_mtime - STALE_S - 1
    os.utime(path, (old_s, old_s))
    assert read_note(path, 5) is None


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "5", '{"pid": 5}', '{"pid": 5, "functions": -1, "seconds": 1}', "{" * 5000),
        '{"pid": 5, "functions": "x", "seconds": 1}',
        '{"pid": 5, "functions": 1, "seconds": NaN}',
        '{"pid": 5, "functions": 1, "seconds": null}',
    ],
)
def test_a_damaged_note_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "worker-0.compiling"
    path.write_text(content)
    assert read_note(path, 5) is None


def test_the_progress_names_the_expected_time_until_it_is_exceeded() -> None:
    assert Compilation(34, 12.4).progress == "34 functions in 12 of about 20 s"
    assert Compilation(80, 41.0).progress == "80 functions in 41 s"
