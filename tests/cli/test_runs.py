"""`zerofleet runs` and `zerofleet status` on runs whose services are down, and on a live one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from datetime import datetime

import pytest

from zerofleet.cli.commands import runs as command
from zerofleet.contracts.gate_events import Tallied
from zerofleet.service.process_identity import announce_place
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.overview import latest_numbers, live_services, overview
from zerofleet.supervisor.readings import Readings, ServiceReading

MODEL = "tic_tac_toe"


@pytest.fixture
def folder(run_with_champion, tmp_path):
    """Return a folder with one run that has a history and a rated champion."""
    run = shutil.copytree(run_with_champion, tmp_path / "runs" / "one")
    (run / "metrics" / "run.jsonl").write_text(
        '{"at": "2026-11-23T02:00:00+00:00", "elapsed_s": 9, "games_stored": 1234, "step": 56}\n{"at"'
    )
    tallies = [Tallied(first="model:1", second="random", points=15, games=20)]
    EventJournal(run / "gatekeeper" / "journal.jsonl", model=MODEL).rewrite(tallies)
    return tmp_path / "runs"


def announce(run, name, pid):
    """Write the announce file of a service."""
    path = RunPaths(run).announce(name)
    said = {"service": name, "pid": pid, "place": announce_place(path), "address": "127.0.0.1:1", "metrics_port": 9}
    path.write_text(json.dumps(said))


def test_runs_are_listed_with_champion_rating_and_state(zerofleet, folder):
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    foreign = shutil.copytree(folder / "one", folder / "foreign")
    (foreign / "run.json").write_text((foreign / "run.json").read_text().replace(MODEL, "no_such_game"))
    listed = zerofleet("runs", "--runs", str(folder), "--json").json()
    (run,) = listed["runs"]
    assert (run["game"], run["champion"], run["rated_version"], run["games_stored"]) == (MODEL, 1, 1, 1234)
    assert run["elo_low"] < run["elo"] < run["elo_high"]
    assert not run["is_alive"]
    assert datetime.fromisoformat(run["created_at"]).tzinfo is not None
    assert [one["name"] for one in listed["unreadable"]] == ["broken", foreign.name]
    shown = zerofleet("runs", "--runs", str(folder))
    assert "stopped" in shown.out
    assert "1,234" in shown.out
    assert "broken cannot be read" in shown.err


def test_a_run_of_a_game_that_is_not_installed_or_with_an_unreadable_pointer_hides_no_other_run(zerofleet, folder):
    for name in ("foreign", "damaged"):
        shutil.copytree(folder / "one", folder / name)
    header = folder / "foreign" / "run.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "game": "hex"}))
    (folder / "damaged" / "models" / MODEL / "champion.json").write_text("{")
    listed = zerofleet("runs", "--runs", str(folder), "--json").json()
    assert [run["name"] for run in listed["runs"]] == ["one"]
    assert [one["name"] for one in listed["unreadable"]] == ["damaged", "foreign"]


class FakePage:
    """Page that remembers its events."""

    def __init__(self):
        self.told, self.shown = [], 0

    def show(self, now):
        self.shown += 1

    def tell(self, at_s, text):
        assert at_s >= 0.0
        self.told.append(text)


class FakeObserver:
    """Observer of a run in which one verdict is reached before its only service ends."""

    def __init__(self, services, gatekeeper, model, say, **options):
        self._say, self._alive = say, [1, 0]

    async def look(self, left_s):
        memory_bytes = self._alive.pop(0)
        if not memory_bytes:
            self._say("candidate 2 was promoted")
        return Readings(services=(ServiceReading("trainer", ChildState.READY, 1.0, 0, memory_bytes),))


def test_a_verdict_is_an_event_of_the_page_and_is_not_written_over_it(folder, monkeypatch, capsys):
    announce(folder / "one", "trainer", os.getpid())
    page, titles = FakePage(), []
    monkeypatch.setattr(command, "presenter", lambda _, title, __: titles.append(title) or contextlib.nullcontext(page))
    monkeypatch.setattr(command, "Observer", FakeObserver)
    monkeypatch.setattr(command, "LOOK_EVERY_S", 0.0)
    asyncio.run(command._follow(overview(folder / "one")))
    assert (page.told, page.shown) == (["candidate 2 was promoted"], 1)
    assert "promoted" not in capsys.readouterr().err
    assert [title.interrupt for title in titles] == ["Ctrl-C leaves this page; the run goes on"]


def test_a_folder_without_runs_says_how_to_start_one(zerofleet, tmp_path):
    assert "start one with: zerofleet run" in zerofleet("runs", "--runs", str(tmp_path)).out


def test_a_folder_that_does_not_exist_is_refused_unless_it_is_the_default(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("runs", "--runs", "nope"), ("runs", "--runs", "nope", "--json"), ("ui", "--runs", "nope")):
        refused = zerofleet(*words)
        assert (refused.code, refused.out) == (2, "")
        assert f"there is no folder {tmp_path / 'nope'}" in refused.err
    first = zerofleet("runs")
    assert (first.code, "start one with: zerofleet run" in first.out) == (0, True)


def test_the_status_of_a_stopped_run_is_its_last_one(zerofleet, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for words in ((), ("one",), ("runs/one",)):
        shown = zerofleet("status", *words).out
        assert "stopped; last seen 2026-11-23T02:00:00+00:00" in shown
        assert "1,234" in shown
    told = zerofleet("status", "--json").json()
    assert (told["name"], told["overview"]["is_live"]) == ("one", False)
    assert told["overview"]["figures"] == {"elapsed_s": 9, "games_stored": 1234, "step": 56}


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("[1, 2]", {}),
        (
            '{"step": NaN, "games": Infinity, "moves": true, "rows": [1], "at": "now"}',
            dict.fromkeys(("step", "games", "moves", "rows")),
        ),
        ('{"step": 1%s, "games": 7}' % ("0" * 400), {"step": None, "games": 7}),
        ("no JSON", {}),
    ],
)
def test_the_figures_of_a_damaged_history_are_numbers_or_unknown(folder, line, figures):
    (folder / "one" / "metrics" / "run.jsonl").write_text(line + "\n")
    assert latest_numbers(RunPaths(folder / "one")) == figures


def test_the_status_of_no_run_is_refused_with_one_line(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no run in" in zerofleet("status").err


def test_a_service_is_alive_by_its_process_and_not_by_a_number_that_was_given_again(folder):
    run = folder / "one"
    announce(run, "gatekeeper", os.getpid())
    announce(run, "trainer", 2**22 + 1)  # beyond the largest process id
    announce(run, "worker-0", os.getpid())
    os.utime(RunPaths(run).announce("worker-0"), (0, 0))  # written before the process began
    assert [service.name for service in live_services(RunPaths(run))] == ["gatekeeper"]
    assert overview(run).is_alive


def test_a_live_run_is_attached_to_through_its_announce_files(zerofleet, folder):
    run = folder / "one"
    announce(run, "trainer", os.getpid())
    listed = zerofleet("status", str(run), "--json").json()
    assert listed["is_alive"]
    assert listed["services"] == ["trainer"]
    assert listed["overview"]["is_live"]
    assert listed["overview"]["figures"]["memory_trainer"] > 0
    assert [one["name"] for one in listed["overview"]["services"]] == ["trainer"]
    assert "is running: " in zerofleet("status", str(run), "--once").out


def test_a_copy_of_the_directory_of_a_live_run_is_stopped(zerofleet, folder):
    announce(folder / "one", "trainer", os.getpid())
    shutil.copytree(folder / "one", folder / "two")
    listed = zerofleet("runs", "--runs", str(folder), "--json").json()
    assert {run["name"]: run["is_alive"] for run in listed["runs"]} == {"one": True, "two": False}
    assert "stopped; last seen" in zerofleet("status", str(folder / "two"), "--once").out


def looks_around(change, run):
    """Return two readings of `status` of a run, before and after a change."""

    async def look():
        gatekeeper, look_at = command._observer(overview(run))
        async with gatekeeper:
            before = await look_at()
            change()
            return before, await look_at()

    return asyncio.run(look())


def test_an_attached_service_that_ends_is_seen(folder):
    run = folder / "one"
    announce(run, "trainer", os.getpid())
    before, after = looks_around(RunPaths(run).announce("trainer").unlink, run)
    (before,), (after,) = before.services, after.services
    assert (before.state, after.state, after.memory_bytes) == (ChildState.READY, ChildState.ENDED, 0)


def test_a_service_that_becomes_ready_after_the_start_of_status_is_shown(folder):
    run = folder / "one"
    announce(run, "trainer", os.getpid())
    before, after = looks_around(lambda: [announce(run, name, os.getpid()) for name in ("inference_server", "worker-0")], run)
    assert [service.name for service in before.services] == ["trainer"]
    assert [service.name for service in after.services] == ["inference_server", "trainer", "worker-0"]
