"""The supervisor with children that are no services: order of the end, what is told, what is refused."""

import asyncio
import dataclasses
import errno
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import games
from gatekeeper.settings import GatekeeperSettings
from trainer.settings import TrainerSettings
from ui.settings import UiSettings
from zerofleet.contracts.champions import Champion
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import Candidate, CandidateStatus
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import ConfigurationError, RunDirectoryError
from zerofleet.presets import preset
from zerofleet.presets.experiment import read_experiment
from zerofleet.service.settings import read_settings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory, RunPaths
from zerofleet.supervisor import RunRequest, run
from zerofleet.supervisor import child as child_module
from zerofleet.supervisor import supervisor as module
from zerofleet.supervisor.child import ChildPlan, GaveUp
from zerofleet.supervisor.closing import closing_reading
from zerofleet.supervisor.fleet import plan_fleet
from zerofleet.supervisor.leftovers import end_leftovers
from zerofleet.supervisor.presenter import PlainLines
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.screen import Title
from zerofleet.supervisor.supervisor import Supervisor, stopped_by_signals
from zerofleet.testing.models import MODEL, sample_files, sample_manifest

Plan = Callable[..., ChildPlan]


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=5)


@asynccontextmanager
async def supervising(
    directory: RunDirectory,
    plans: Sequence[ChildPlan],
    out: io.StringIO,
    duration_s: float | None = None,
    *,
    has_pages: bool = False,
) -> AsyncIterator[asyncio.Task[tuple[GaveUp | None, Readings]]]:
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", duration_s=duration_s, has_pages=has_pages)
    supervisor = Supervisor(request, directory, plans, Console(file=out, width=100))
    with stopped_by_signals(supervisor):
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            yield group.create_task(supervisor.run())


async def until_ready(notes: Path, children: int) -> None:
    await until(lambda: notes.exists() and notes.read_text().count("ready") >= children)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def ends(notes: Path) -> list[str]:
    return [line.split()[0] for line in notes.read_text().splitlines() if line.endswith("ends")]


@pytest.fixture(autouse=True)
def attached_to_a_terminal() -> Iterator[None]:
    """The tests themselves may run under `nohup`."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_workers_first_and_the_inference_server_last(
    directory: RunDirectory, plan: Plan, notes: Path, number: signal.Signals
) -> None:
    names = ["inference", "gatekeeper", "trainer", "worker-0", "worker-1"]
    out = io.StringIO()
    async with supervising(directory, [plan(name, "good") for name in names], out) as ended:
        await until_ready(notes, len(names))
        os.kill(os.getpid(), number)
    assert ended.result()[0] is None
    assert sorted(ends(notes)[:2]) == ["worker-0", "worker-1"]
    assert ends(notes)[2:] == ["trainer", "gatekeeper", "inference"]
    assert f"{number.name}: stopping the services" in out.getvalue()


@pytest.mark.slow
async def test_a_run_under_nohup_goes_on_when_its_terminal_is_closed(directory: RunDirectory, plan: Plan, notes: Path) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        out = io.StringIO()
        async with supervising(directory, [plan("trainer", "good")], out):
            await until_ready(notes, 1)
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, former)
    assert "SIGINT: stopping the services" in out.getvalue()
    assert "SIGHUP" not in out.getvalue()


@pytest.mark.slow
async def test_the_address_of_the_pages_is_told_when_they_are_ready(directory: RunDirectory, plan: Plan) -> None:
    out = io.StringIO()
    pages = plan("ui", "good", ZEROFLEET_TEST_ADDRESS="http://127.0.0.1:8765/")
    async with supervising(directory, [plan("trainer", "good"), pages], out, has_pages=True):
        while "in a browser" not in out.getvalue():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    assert "this run in a browser: http://127.0.0.1:8765/" in out.getvalue()
    assert "zerofleet ui --run-dir" not in out.getvalue()


@pytest.mark.slow
async def test_a_run_goes_on_without_pages_that_cannot_start(directory: RunDirectory, plan: Plan) -> None:
    out = io.StringIO()
    pages = dataclasses.replace(plan("ui", "refuses"), is_needed=False)
    async with supervising(directory, [plan("trainer", "good"), pages], out, has_pages=True) as ended:
        while "continues without ui" not in out.getvalue():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not ended.done()
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.result()[0] is None
    assert "port 1 is taken" in out.getvalue()


@pytest.mark.slow
async def test_services_that_were_not_ready_when_the_run_was_stopped_are_known(
    directory: RunDirectory, plan: Plan, notes: Path, tmp_path: Path
) -> None:
    ready, absent = plan("worker-0", "good"), tmp_path / "absent.json"
    starting = dataclasses.replace(plan("trainer", "good"), announce=absent)
    plans = [starting, ready, dataclasses.replace(plan("ui", "good"), announce=absent, is_needed=False)]
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny")
    supervisor = Supervisor(request, directory, plans, Console(file=io.StringIO(), width=100))
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run())
        await until_ready(notes, len(plans))
        await until(ready.announce.exists)
        supervisor.stop("SIGINT")
    assert supervisor.unready == ("trainer",)


@pytest.mark.slow
async def test_a_run_without_pages_names_the_command_that_shows_it(directory: RunDirectory, plan: Plan) -> None:
    out = io.StringIO()
    async with supervising(directory, [plan("trainer", "good")], out, duration_s=0.1):
        pass
    assert f"to see this run in a browser: zerofleet ui --run-dir {directory.paths.root}" in out.getvalue()


@pytest.mark.slow
async def test_a_second_signal_kills_the_remaining_services(directory: RunDirectory, plan: Plan, notes: Path) -> None:
    out = io.StringIO()
    async with supervising(directory, [plan("trainer", "deaf", grace_s=600.0)], out) as ended:
        await until_ready(notes, 1)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.result()[0] is None
    assert "SIGINT again: killing the remaining services" in out.getvalue()


@pytest.mark.slow
async def test_a_run_ends_after_its_duration(directory: RunDirectory, plan: Plan, notes: Path) -> None:
    out = io.StringIO()
    async with supervising(directory, [plan("trainer", "good")], out, duration_s=0.5) as ended:
        pass
    failure, last = ended.result()
    assert failure is None
    assert last.services[0].name == "trainer"
    assert "the time is up; finishing" in out.getvalue()
    assert (directory.paths.metrics / "run.jsonl").read_text().count("\n") == 1


@pytest.mark.slow
async def test_the_last_reading_of_a_run_is_that_of_its_files_after_the_services_have_ended(
    directory: RunDirectory, plan: Plan
) -> None:
    paths, game = directory.paths, games.make("tic_tac_toe")
    store = DirectoryStore(paths.models)
    version = store.publish(MODEL, sample_files(), sample_manifest())
    async with supervising(directory, [plan("trainer", "good")], io.StringIO(), duration_s=0.1) as ended:
        store.write_champion(MODEL, version, epoch=1, reason="the first")  # as a service does that is still ending
        submitted = Submitted(version=version, manifest_sha256=store.manifest_sha256(MODEL, version))
        promoted = StatusChanged(version=version, status=CandidateStatus.PROMOTED, reason="the first")
        EventJournal(paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite([submitted, promoted])
        uid, played = f"{7:032x}", random_game(game, 7)
        with GameLog.open(paths.replay, writer=True) as log:
            log.append([(uid, encode_record(played, worker_id="worker-0", uid=uid, finished_at_ms=1_800_000_000_000))])
    _, last = ended.result()
    assert last.champion is not None
    assert (last.champion.version, [one.version for one in last.candidates], last.games_stored) == (version, [version], 1)


def test_the_last_reading_stays_where_files_cannot_be_read(directory: RunDirectory) -> None:
    last = Readings(games_stored=3, candidates=(Candidate(MODEL, 1, CandidateStatus.QUEUED),))
    assert closing_reading(last, directory.paths, games.make("tic_tac_toe")) == last


@pytest.mark.slow
async def test_a_refusal_to_start_is_distinguished_from_deaths(directory: RunDirectory, plan: Plan) -> None:
    async with supervising(directory, [plan("trainer", "refuses")], io.StringIO()) as ended:
        pass
    failure, _ = ended.result()
    assert failure is not None
    assert failure.is_final


@pytest.mark.slow
async def test_a_child_that_is_given_up_ends_the_run_and_all_children(
    directory: RunDirectory, plan: Plan, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "FIRST_PAUSE_S", 0.01)
    out = io.StringIO()
    async with supervising(directory, [plan("inference", "good"), plan("trainer", "dies")], out) as ended:
        pass
    failure, _ = ended.result()
    assert failure is not None
    assert "trainer was killed by SIGKILL 5 times in a row" in str(failure)
    assert not failure.is_final
    assert out.getvalue().count("restarting") == 4
    assert ends(notes) == ["inference"]


@pytest.mark.parametrize(
    ("statuses", "newest", "has_ended"),
    [
        ([CandidateStatus.BROKEN], 1, True),
        ([CandidateStatus.BROKEN, CandidateStatus.QUEUED], 2, False),
        ([CandidateStatus.BROKEN], 2, False),  # exported, and not submitted yet
        ([CandidateStatus.BROKEN], 0, False),  # the trainer starts
        ([CandidateStatus.PROMOTED, CandidateStatus.BROKEN], 2, False),
    ],
)
def test_a_run_without_a_champion_whose_newest_version_is_broken_ends_with_the_reason(
    directory: RunDirectory, statuses: list[CandidateStatus], newest: int, has_ended: bool
) -> None:
    supervisor = Supervisor(RunRequest(MODEL, directory.paths.root, preset="tiny"), directory, [], Console(file=io.StringIO()))
    candidates = tuple(Candidate(MODEL, n, status, None, "widths [1]") for n, status in enumerate(statuses, 1))
    champion = Champion(MODEL, 1, 1, "", 0, "first champion") if CandidateStatus.PROMOTED in statuses else None
    supervisor._last = Readings(candidates=candidates, champion=champion, newest_version=newest)
    supervisor._end_without_network()
    assert supervisor._end.is_set() == has_ended
    if has_ended:
        failure = supervisor._failure
        assert failure is not None
        assert str(failure).startswith("version 1 is broken, and without a champion no games are played: widths [1]; ")
        assert failure.is_final


@pytest.mark.slow
async def test_the_first_signal_after_a_child_was_given_up_lets_the_others_drain(
    directory: RunDirectory, plan: Plan, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "MAX_QUICK_DEATHS", 1)
    out, plans = io.StringIO(), [plan("trainer", "drains"), plan("worker-0", "good")]
    async with supervising(directory, plans, out) as ended:
        await until_ready(notes, 2)
        trainer, worker = (json.loads(one.announce.read_bytes())["pid"] for one in plans)
        os.kill(worker, signal.SIGKILL)
        await until(lambda: "trainer drains" in notes.read_text())
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: "SIGINT" in out.getvalue())
        os.kill(trainer, signal.SIGUSR1)
    failure, _ = ended.result()
    assert failure is not None
    assert "SIGINT: stopping the services; once more to kill them" in out.getvalue()
    assert ends(notes) == ["trainer"]


async def test_the_history_of_a_run_that_was_stopped_for_an_hour_goes_on_at_its_pace(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s, rows_at_s = 0.0, []
    passing_s = [1.0, 1.0, 1.0, 3600.0, *[1.0] * 20]

    class Watcher:
        async def look(self, left_s: float | None) -> Readings:
            nonlocal clock_s
            if not passing_s:
                raise asyncio.CancelledError
            clock_s += passing_s.pop(0)
            return Readings()

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock_s)
    monkeypatch.setattr(module, "History", lambda *_: SimpleNamespace(write=lambda now: rows_at_s.append(clock_s)))
    supervisor = Supervisor(
        RunRequest("tic_tac_toe", directory.paths.root, preset="tiny"), directory, [], Console(file=io.StringIO())
    )
    with pytest.raises(asyncio.CancelledError):
        await supervisor._watch(Watcher())
    assert rows_at_s == [1.0, 3603.0, 3613.0, 3623.0]


@pytest.mark.slow
async def test_a_run_survives_the_close_of_its_terminal(directory: RunDirectory, plan: Plan, notes: Path) -> None:
    class ClosedTerminal(io.StringIO):
        def write(self, text: str) -> int:
            if "SIGTERM" in text:
                raise OSError(errno.EIO, "Input/output error")
            return super().write(text)

    async with supervising(directory, [plan("trainer", "good")], ClosedTerminal()) as ended:
        await until_ready(notes, 1)
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.result()[0] is None
    assert ends(notes) == ["trainer"]


def test_a_run_of_another_game_or_in_use_is_refused_before_anything_starts(directory: RunDirectory) -> None:
    root = directory.paths.root
    with pytest.raises(RunDirectoryError, match=f"in use by process {os.getpid()}"):
        run(RunRequest("tic_tac_toe", root, preset="tiny"))
    directory.close()
    with pytest.raises(RunDirectoryError, match="is a run of tic_tac_toe, not of connect_four"):
        run(RunRequest("connect_four", root, preset="tiny"))


@pytest.mark.parametrize("free", [0, 3])
def test_a_full_disk_is_refused_before_anything_starts(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    directory.close()
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free << 20))
    with pytest.raises(ConfigurationError, match=rf"^the disk of .* has {free} MiB free, a run needs at least 200 MiB"):
        module.run(RunRequest("tic_tac_toe", directory.paths.root, preset="tiny"))


def test_a_run_keeps_its_first_experiment_when_resumed_with_another(directory: RunDirectory) -> None:
    root = directory.paths.root
    module._keep_experiment(RunRequest("tic_tac_toe", root, preset="tiny", overrides={"search.simulations": "29"}), directory)
    module._keep_experiment(RunRequest("tic_tac_toe", root, preset="tiny", overrides={"search.simulations": "28"}), directory)
    kept = read_experiment(directory.paths.experiment)
    assert (kept.game, kept.preset, kept.seed, kept.build_preset().search.simulations) == ("tic_tac_toe", "tiny", 5, 29)
    assert [path.name for path in root.glob("experiment*")] == ["experiment.toml"]


def test_the_pages_start_last_on_loopback_for_this_run_alone(directory: RunDirectory) -> None:
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", has_pages=True)
    chosen = preset(request.build_game(), "tiny")
    *services, pages = plan_fleet(request, directory, chosen, {"ZEROFLEET_RUNS": "/elsewhere"})
    assert (pages.name, pages.is_needed, all(one.is_needed for one in services)) == ("ui", False, True)
    settings, _ = read_settings(UiSettings, pages.command[3:], pages.environment)
    assert (settings.run_dir, settings.runs, settings.is_loopback) == (directory.paths.root, None, True)
    assert [one.name for one in plan_fleet(RunRequest("tic_tac_toe", Path("r"), preset="tiny"), directory, chosen, {})] == [
        one.name for one in services
    ]


def test_the_pages_take_a_free_port_where_the_usual_one_is_in_use(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", has_pages=True)
    chosen = preset(request.build_game(), "tiny")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("zerofleet.supervisor.fleet.PAGE_PORT", port)
        assert _port_of(plan_fleet(request, directory, chosen, {})[-1]) == "0"
    assert _port_of(plan_fleet(request, directory, chosen, {})[-1]) == str(port)
    assert "--page-port" not in plan_fleet(request, directory, chosen, {"ZEROFLEET_PAGE_PORT": "9000"})[-1].command


def _port_of(plan: ChildPlan) -> str:
    return plan.command[plan.command.index("--page-port") + 1]


def test_every_service_receives_its_directory_addresses_threads_priority_and_seed(directory: RunDirectory) -> None:
    request = RunRequest(
        "tic_tac_toe",
        directory.paths.root,
        preset="tiny",
        workers=2,
        overrides={"search.simulations": "9", "trainer.log_level": "debug"},
    )
    plans = {p.name: p for p in plan_fleet(request, directory, preset(request.build_game(), "tiny"), {"HOME": "/h"})}
    assert list(plans) == ["inference_server", "gatekeeper", "trainer", "worker-0", "worker-1"]
    for made in plans.values():
        assert made.command[:3] == (sys.executable, "-m", made.kind)
        assert made.environment["HOME"] == "/h"
        assert made.environment["ZEROFLEET_SEARCH__SIMULATIONS"] == "9"
        assert made.environment["OMP_NUM_THREADS"] == "1"
        options = dict(zip(made.command[3::2], made.command[4::2], strict=True))
        assert options["--parent-pid"] == str(os.getpid())
        assert ("--log_level" in options) == (made.name == "trainer")
    assert {name for name, made in plans.items() if made.niceness} == {"inference_server", "worker-0", "worker-1"}
    worker = plans["worker-1"].command
    assert worker[worker.index("--worker-id") + 1] == "worker-1"
    assert worker[worker.index("--run-seed") + 1] == "5"


@pytest.mark.parametrize(
    ("overrides", "environment", "trainer_s", "others_s"),
    [
        ({}, {}, 15.0, 15.0),
        ({"trainer.grace_s": "120"}, {}, 120.0, 15.0),
        ({}, {"ZEROFLEET_GRACE_S": "40"}, 40.0, 40.0),
        ({"trainer.grace-s": "120"}, {"ZEROFLEET_GRACE_S": "40"}, 120.0, 40.0),
    ],
)
def test_a_service_and_its_supervisor_have_one_grace_time(
    directory: RunDirectory, overrides: dict[str, str], environment: dict[str, str], trainer_s: float, others_s: float
) -> None:
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", overrides=overrides, has_pages=True)
    plans = plan_fleet(request, directory, preset(request.build_game(), "tiny"), environment)
    assert {plan.name: plan.grace_s for plan in plans} == {plan.name: others_s for plan in plans} | {"trainer": trainer_s}
    for kind, settings in (("trainer", TrainerSettings), ("gatekeeper", GatekeeperSettings), ("ui", UiSettings)):
        plan = next(plan for plan in plans if plan.kind == kind)
        assert read_settings(settings, plan.command[3:], plan.environment)[0].grace_s == plan.grace_s


def test_services_left_by_a_killed_supervisor_have_their_grace_time(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.close()
    waited_s = []
    monkeypatch.setattr(module, "end_leftovers", lambda _paths, *, timeout_s: waited_s.append(timeout_s))
    monkeypatch.setattr(module, "require_service_settings", lambda *_: None)
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", overrides={"trainer.grace_s": "120"})
    with module.supervising(request, Console(file=io.StringIO())):
        pass
    assert waited_s == [125.0]


@pytest.mark.parametrize(("duration_s", "end"), [(None, "0"), (1800.0, "1001800")])
def test_the_trainer_receives_the_planned_end_of_the_run(directory: RunDirectory, duration_s: float | None, end: str) -> None:
    request = RunRequest("tic_tac_toe", directory.paths.root, preset="tiny", duration_s=duration_s)
    chosen = preset(request.build_game(), "tiny")
    plans = {p.kind: p for p in plan_fleet(request, directory, chosen, {}, wall_clock=lambda: 1_000_000.0)}
    trainer = plans["trainer"].command
    assert trainer[trainer.index("--planned-end-s") + 1] == end


@pytest.mark.slow
def test_services_left_by_a_killed_supervisor_are_ended_first(tmp_path: Path, notes: Path) -> None:
    paths = RunPaths(tmp_path)
    paths.services.mkdir()
    announce = paths.announce("trainer")
    program = str(Path(__file__).with_name("fake_child.py"))
    with subprocess.Popen([sys.executable, "-S", program, "trainer", str(notes), str(announce), "good"]) as left:
        asyncio.run(asyncio.wait_for(until_ready(notes, 1), timeout=20))
        paths.announce("stranger").write_text(f'{{"pid": {os.getpid()}}}')  # a number that belongs to somebody else now
        paths.announce("broken").write_text("{")
        assert end_leftovers(paths) == [left.pid]
    assert ends(notes) == ["trainer"]
    assert end_leftovers(paths) == []


@pytest.mark.parametrize(
    ("chosen", "devices", "told"),
    [("gpu", {"cpu"}, 1), ("gpu", {"cpu", "cuda:0"}, 1), ("gpu", {"cuda:0"}, 0), ("gpu", set(), 0), ("tiny", {"cpu"}, 0)],
)
def test_a_run_with_the_preset_of_a_gpu_reports_once_that_inference_is_on_a_cpu(
    tmp_path: Path, chosen: str, devices: set[str], told: int
) -> None:
    out = io.StringIO()
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset=chosen, seed=5) as directory:
        supervisor = Supervisor(RunRequest("tic_tac_toe", tmp_path / "run", preset=chosen), directory, [], Console(file=out))
        title = Title("tic_tac_toe", chosen, str(tmp_path), None, "Ctrl-C stops it")
        supervisor._presenter = PlainLines(Console(file=out, width=200), title)
        for known in (set(), devices, devices):  # at first no server has answered
            supervisor._last = Readings(devices=frozenset(known))
            supervisor._tell_device()
    assert out.getvalue().count("preset gpu is meant for a GPU, and inference is on a CPU") == told
