"""A supervised process: ready, dead, started again, given up, drained."""

import asyncio
import dataclasses
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor import child as module
from zerofleet.supervisor import priority
from zerofleet.supervisor.child import Child, ChildPlan, ChildState, GaveUp, log_tail
from zerofleet.supervisor.leftovers import end_leftovers
from zerofleet.supervisor.overview import live_services

Plan = Callable[..., ChildPlan]

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "KILL_AFTER_GRACE_S", 0.0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something another process does; the file system tells nobody."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event crosses from a foreign process
            await asyncio.sleep(0.01)


def lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines()


def starts(notes: Path) -> int:
    return sum("starts" in line for line in lines(notes))


@asynccontextmanager
async def supervised(plan: ChildPlan) -> AsyncIterator[tuple[Child, list[str]]]:
    said: list[str] = []
    child = Child(plan, said.append)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.supervise())
        yield child, said
        await child.drain()
        await task


def is_ready(child: Child) -> bool:
    child.look()
    return child.state is ChildState.READY


async def test_a_child_is_ready_once_announced_and_stops_on_request(plan: Plan, notes: Path) -> None:
    async with supervised(plan("trainer", "good")) as (child, said):
        await until(lambda: is_ready(child))
    assert child.state is ChildState.ENDED
    assert child.pid is None
    assert lines(notes) == ["trainer starts crash=nowhere", "trainer ready", "trainer ends"]
    assert said == []


async def test_an_announcement_of_another_process_is_ignored(plan: Plan) -> None:
    made = plan("trainer", "deaf", grace_s=0.05)
    child = Child(made, lambda _text: None)
    made.announce.write_text('{"pid": 1, "metrics_port": 0}')
    assert not is_ready(child)


async def test_a_child_that_cannot_be_started_for_a_moment_is_started_again(
    plan: Plan, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, faults = asyncio.create_subprocess_exec, [OSError(errno.EAGAIN, "Resource temporarily unavailable")]

    async def begin(*command: str, **options: Any) -> asyncio.subprocess.Process:
        if faults:
            raise faults.pop()
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin)
    async with supervised(plan("trainer", "good")) as (child, said):
        await until(lambda: is_ready(child))
    assert len(said) == 1
    assert said[0].startswith("trainer could not be started: [Errno 11] Resource temporarily unavailable")
    assert starts(notes) == 1


def is_nice(pid: int, niceness: int) -> bool:
    group = Path(f"/proc/{pid}/autogroup")
    is_group_nice = not group.exists() or group.read_text().endswith(f" nice {niceness}\n")
    return psutil.Process(pid).nice() == niceness and is_group_nice


async def test_other_processes_go_before_a_nice_child_after_a_restart_too(plan: Plan) -> None:
    nicer = dataclasses.replace(plan("worker-0", "dies_once"), niceness=5)
    wanted = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    async with supervised(nicer) as (child, _):
        await until(lambda: child.restarts == 1 and is_ready(child))
        await until(lambda: child.pid is not None and is_nice(child.pid, wanted))


async def test_a_child_without_a_niceness_of_its_own_has_that_of_its_supervisor_among_sessions_too(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[tuple[Path, str]] = []
    monkeypatch.setattr(Path, "write_text", lambda path, text: groups.append((path, text)))
    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    for own in (7, 0):
        monkeypatch.setattr(os, "getpriority", lambda *_, own=own: own)
        async with supervised(plan("gatekeeper", "good")) as (child, _):
            await until(lambda: is_ready(child))
            pid = child.pid
        assert groups == ([(Path(f"/proc/{pid}/autogroup"), "7\n")] if own else [])  # a new group has 0
        groups.clear()


async def test_the_group_of_a_process_is_set_once_the_kernel_allows_another_change(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    refusals = iter([True, True, False])

    def write(_: Path, text: str) -> None:
        if next(refusals):
            raise BlockingIOError(errno.EAGAIN, "try again")
        written.append(text)

    monkeypatch.setattr(priority, "_PAUSE_S", 0.0)
    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    await priority.lower_priority(1, 5)
    assert written == [f"{min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)}\n"]


async def test_a_process_that_has_ended_has_no_priority_to_lower() -> None:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    await priority.lower_priority(ended.pid, 5)


def test_the_end_by_a_signal_without_a_name_is_reported_by_its_number() -> None:
    assert module._how_it_ended(-9) == "was killed by SIGKILL"
    assert module._how_it_ended(-35) == "was killed by signal 35"


async def test_a_dead_child_is_restarted_and_its_end_is_reported(plan: Plan, notes: Path) -> None:
    async with supervised(plan("trainer", "dies_once")) as (child, said):
        await until(lambda: child.restarts == 1 and is_ready(child))
        reported = list(said)  # before the end, which a slow machine may force
    assert reported == ["trainer was killed by SIGKILL; restarting in 0.01 s"]
    assert starts(notes) == 2


async def test_a_restart_states_the_reason_of_this_end_and_none_for_a_process_that_was_killed(plan: Plan) -> None:
    async with supervised(plan("trainer", "fails_once")) as (child, said):
        await until(lambda: child.restarts == 2 and is_ready(child))
        reported = list(said)
    assert reported == [
        "trainer exited with code 1: the disk is full; restarting in 0.01 s",
        "trainer was killed by SIGKILL; restarting in 0.02 s",
    ]


async def test_only_the_first_start_of_a_child_has_a_crash_point(plan: Plan, notes: Path) -> None:
    async with supervised(plan("trainer", "dies_once", ZEROFLEET_TEST_CRASH_AT="here")) as (child, _):
        await until(lambda: child.restarts == 1 and is_ready(child))
    assert [line for line in lines(notes) if "starts" in line] == ["trainer starts crash=here", "trainer starts crash=nowhere"]


async def test_a_child_that_dies_repeatedly_is_given_up_with_the_end_of_its_log(plan: Plan, notes: Path) -> None:
    said: list[str] = []
    with pytest.raises(GaveUp, match=r"trainer was killed by SIGKILL 5 times in a row.*trainer\.log") as given_up:
        await Child(plan("trainer", "dies"), said.append).supervise()
    assert "error: disk.full path=/x" in str(given_up.value)
    assert len(said) == 4
    assert "restarting in 0.08 s" in said[-1]
    assert starts(notes) == 5


async def test_a_child_that_refuses_to_start_is_given_up_at_once(plan: Plan, notes: Path) -> None:
    with pytest.raises(GaveUp, match="trainer refused to start") as given_up:
        await Child(plan("trainer", "refuses"), lambda _text: None).supervise()
    assert "  port 1 is taken; set another" in str(given_up.value)
    assert starts(notes) == 1


async def test_a_child_that_does_not_end_is_killed_after_its_grace_time(plan: Plan) -> None:
    async with supervised(plan("trainer", "deaf", grace_s=0.05)) as (child, said):
        await until(lambda: is_ready(child))
    assert child.state is ChildState.ENDED
    assert said == ["trainer did not stop within 0.05 s and was killed"]


async def test_a_child_waiting_for_its_restart_is_not_started_after_a_stop(
    plan: Plan, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 30.0)
    async with supervised(plan("trainer", "dies")) as (child, _):
        await until(lambda: child.state is ChildState.RESTARTING)
    assert starts(notes) == 1


async def test_cancelling_the_supervision_kills_the_child(plan: Plan) -> None:
    child = Child(plan("trainer", "deaf"), lambda _text: None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.supervise())
        await until(lambda: is_ready(child))
        task.cancel()
    assert child.pid is None


def test_the_tail_of_a_log_is_formatted_for_people(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert log_tail(log) == ["(no log)"]
    log.write_text("")
    assert log_tail(log) == ["(empty log)"]
    log.write_text('plain\n{"event": "store.full", "level": "error", "service": "t", "free": 3}\n[1]\n')
    assert log_tail(log) == ["plain", "error: store.full free=3", "[1]"]
    log.write_text("\n".join(map(str, range(1000))))
    assert log_tail(log, lines=2) == ["998", "999"]


def test_a_large_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 3)
    log = tmp_path / "a.log"
    log.write_text("abc")
    assert not module._limit_log(log)
    assert log.read_text() == "abc"
    log.write_text("abcd")
    assert module._limit_log(log)
    assert (tmp_path / "a.log.1").read_text() == "abcd"
    assert log.read_text() == ""
    assert not module._limit_log(tmp_path / "absent.log")


async def test_the_log_of_a_child_that_runs_for_weeks_is_rotated_and_goes_on(plan: Plan) -> None:
    async with supervised(plan("trainer", "good")) as (child, _):
        await until(lambda: is_ready(child))
        with child.plan.log.open("ab") as log:  # as the child has it open
            log.truncate(module.MAX_LOG_BYTES + 1)
            child.look()
            log.write(b"next\n")
        assert child.plan.log.read_bytes() == b"next\n"
        assert child.plan.log.with_suffix(".log.1").stat().st_size == module.MAX_LOG_BYTES + 1


def test_a_large_log_is_cut_where_the_disk_has_no_space_for_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr("shutil.copyfile", fails)
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 3)
    (tmp_path / "a.log").write_text("abcd")
    assert module._limit_log(tmp_path / "a.log")
    assert (tmp_path / "a.log").read_text() == ""


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "7",
        '{"pid": 7}',
        '{"pid": 7, "metrics_port": "none", "address": ""}',
        '{"pid": 7, "metrics_port": 1e999, "address": ""}',
        "[" * 100_000,
    ],
)
def test_an_announce_file_of_another_content_is_not_read(plan: Plan, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(Child, "pid", 7)
    child = Child(plan("trainer", "runs"), print)
    child.plan.announce.write_text(content)
    child.look()
    assert (child.state, child.metrics_port) == (ChildState.STARTING, 0)


@pytest.mark.parametrize("content", ['{"pid": 1e999}', '{"pid": 1, "metrics_port": 1e999}', "[]", '{"pid": null}'])
def test_an_announce_file_with_a_number_that_is_none_names_no_process(tmp_path: Path, content: str) -> None:
    paths = RunPaths(tmp_path)
    paths.services.mkdir(parents=True)
    paths.announce("trainer").write_text(content)
    assert live_services(paths) == ()
    assert end_leftovers(paths) == []
