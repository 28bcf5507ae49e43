"""A service that compiles: what page, lines and events of a run show meanwhile."""

from __future__ import annotations

import dataclasses
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet.service.compilation_note import Compilation, note_path, write_note
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor import RunRequest
from zerofleet.supervisor.attached import AttachedService
from zerofleet.supervisor.child import Child, ChildPlan, ChildState
from zerofleet.supervisor.lines import progress_line
from zerofleet.supervisor.overview import ServiceFile
from zerofleet.supervisor.presenter import PlainLines
from zerofleet.supervisor.readings import Readings, ServiceReading
from zerofleet.supervisor.screen import Title, draw
from zerofleet.supervisor.supervisor import Supervisor

TITLE = Title("connect_four", "laptop", "runs/connect_four-laptop", None, "Ctrl-C stops it")
WORKER = ServiceReading("worker-0", ChildState.STARTING, 14.0, 0, 1 << 20, compiling=Compilation(34, 12.0))
COUNTED = ("0 functions", "1 function", "2 functions")
NOW = Readings(elapsed_s=14.0, services=(WORKER,))


def shown(now: Readings) -> str:
    console = Console(file=io.StringIO(), width=110, height=38, color_system=None)
    console.print(draw(TITLE, now, [], columns=110, lines=38))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_page_and_line_show_the_progress_with_the_expected_time() -> None:
    assert "worker-0 compiles, 12 of about 20 s" in shown(NOW)
    assert "worker-0 compiles: 34 functions in 12 of about 20 s" in progress_line(NOW)
    ready = dataclasses.replace(NOW, services=(WORKER._replace(state=ChildState.READY, compiling=None),))
    assert "compiles" not in shown(ready) + progress_line(ready)


def test_plain_lines_come_before_the_first_game_while_a_service_compiles() -> None:
    out = io.StringIO()
    lines = PlainLines(Console(file=out, width=200), TITLE)
    lines.show(Readings(elapsed_s=1.0))
    assert out.getvalue() == ""
    for elapsed_s in (2.0, 5.0, 13.0):
        lines.show(dataclasses.replace(NOW, elapsed_s=elapsed_s))
    assert out.getvalue().count("worker-0 compiles: ") == 2


def test_the_first_function_of_a_compilation_is_one() -> None:
    assert [Compilation(n, 1.0).progress for n in (0, 1, 2)] == [f"{n} in 1 of about 20 s" for n in COUNTED]


@pytest.mark.slow
def test_the_compilations_of_a_child_are_reported_once_and_none_after_the_end(tmp_path: Path) -> None:
    names = ("worker-0", "worker-1")
    plans = [ChildPlan(name, "selfplay_worker", (), {}, tmp_path / f"{name}.json", tmp_path / "log", 1.0) for name in names]
    out = io.StringIO()
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5) as directory:
        request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny")
        supervisor = Supervisor(request, directory, plans, Console(file=out, width=200))
        supervisor._presenter = PlainLines(Console(file=out, width=200), TITLE)
        first, second = supervisor._children
        for seconds in (None, 2.0, 12.0, None, 24.0, None, 1.5, 3.0):  # the rules, with a late note, and the search
            first.compiling = None if seconds is None else Compilation(3, seconds)
            supervisor._tell_compilations()
        second.compiling, supervisor._is_ending = Compilation(0, 1.0), True
        supervisor._tell_compilations()
    told = "worker-0 compiles rules and search of tic_tac_toe for this machine, once; about 20 s"
    assert out.getvalue().count(told) == out.getvalue().count(" compiles ") == 1


def test_a_child_and_an_attached_service_read_the_note_of_their_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(tmp_path)
    paths.services.mkdir(parents=True)
    announce = paths.announce("worker-0")
    child = Child(ChildPlan("worker-0", "selfplay_worker", (), {}, announce, tmp_path / "log", 1.0), print)
    monkeypatch.setattr(Child, "pid", property(lambda self: os.getpid()))
    attached = AttachedService(paths, ServiceFile("worker-0", os.getpid(), "", 0, 0.0))
    child.look()
    assert (child.compiling, attached.compiling) == (None, None)
    write_note(note_path(announce), Compilation(34, 12.0), pid=os.getpid())
    child.look()
    assert child.compiling == attached.compiling == Compilation(34, 12.0)
    write_note(note_path(announce), Compilation(34, 12.0), pid=1)
    child.look()
    assert (child.compiling, attached.compiling) == (None, None)
