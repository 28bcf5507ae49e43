"""A service process from start to exit code."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from zerofleet.errors import ConfigurationError, DeviceLost
from zerofleet.service import lifecycle
from zerofleet.service.lifecycle import Drain, Service, serve_until_drained
from zerofleet.service.process_identity import pid_namespace, start_ticks
from zerofleet.service.settings import ServiceSettings
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.leftovers import end_leftovers

PROGRAM = Path(__file__).with_name("service_process.py")


class LoopSettings(ServiceSettings):
    SERVICE: ClassVar[str] = "trainer"


async def get(port: int, path: str, request: bytes | None = None) -> tuple[int, str]:
    """Return status and body of one GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request if request is not None else f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


def noting(events: list[str], name: str) -> Drain:
    """Return a drain that notes its name."""

    async def drain() -> None:
        events.append(name)

    return drain


async def serve(main: Callable[[Service], Awaitable[None]], **values: object) -> int:
    return await serve_until_drained(main, LoopSettings.model_validate(values))


async def test_readiness_follows_the_service_and_liveness_the_loop() -> None:
    answers: list[int] = []

    async def main(service: Service) -> None:
        for change in (None, service.ready, lambda: service.not_ready("model lost"), service.ready, service.stopping.set):
            if change is not None:
                change()
            answers.append((await get(service.metrics_port, "/readyz"))[0])
        assert await get(service.metrics_port, "/livez") == (200, "alive\n")

    assert await serve(main) == 0
    assert answers == [503, 200, 503, 200, 503]


async def test_sigterm_drains_in_order_while_readiness_is_off() -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        async def drain(name: str) -> None:
            status, body = await get(service.metrics_port, "/readyz")
            events.append(f"{name} {status} {body.strip()}")

        for name in ("intake", "batches", "flush"):
            service.on_drain(name, lambda name=name: drain(name))
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()

    assert await serve(main) == 0
    assert events == ["intake 503 draining", "batches 503 draining", "flush 503 draining"]


async def test_a_signal_during_the_start_is_obeyed_once_the_drains_are_registered() -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        ended = asyncio.Event()

        async def drain() -> None:
            events.append("drained")
            ended.set()

        for _ in range(20):  # the rest of the start
            await asyncio.sleep(0)
        service.on_drain("work", drain)
        await ended.wait()

    assert await serve(main, grace_s=20.0) == 0
    assert events == ["drained"]


async def test_a_failing_drain_does_not_prevent_the_next() -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        async def breaks() -> None:
            raise RuntimeError("no")

        service.on_drain("breaks", breaks)
        service.on_drain("flush", noting(events, "flush"))

    assert await serve(main) == 0
    assert events == ["flush"]


async def test_work_beyond_the_grace_time_is_cancelled_and_changes_the_exit_code() -> None:
    cancelled = asyncio.Event()

    async def main(service: Service) -> None:
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert await serve(main, grace_s=0.01) == 1
    assert cancelled.is_set()


@pytest.mark.parametrize("parent_pid", [0, os.getppid()], ids=["alone", "supervised"])
async def test_a_second_signal_cancels_at_once(parent_pid: int) -> None:
    async def main(service: Service) -> None:
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    assert await serve(main, grace_s=60, parent_pid=parent_pid) == 1


async def test_a_repeated_sigterm_leaves_a_supervised_service_its_grace_time() -> None:
    saved = asyncio.Event()

    async def main(service: Service) -> None:
        async def save() -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(20):  # turns of the loop in which the signal is handled
                await asyncio.sleep(0)
            saved.set()

        service.on_drain("learner", save)
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await saved.wait()

    assert await serve(main, grace_s=60, parent_pid=os.getppid()) == 0
    assert saved.is_set()


async def test_two_signals_at_the_same_time_cancel_after_the_drains() -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        service.on_drain("flush", noting(events, "flush"))
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    assert await serve(main, grace_s=60) == 1
    assert events == ["flush"]


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_second_signal_ends_a_drain_that_waits_also_when_the_work_is_over(
    monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    monkeypatch.setattr(lifecycle, "LAST_DRAINS_S", 0.01)
    draining = asyncio.Event()

    async def main(service: Service) -> None:
        async def waits() -> None:
            draining.set()
            if is_over:
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

        service.on_drain("publish", waits)
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        if not is_over:
            await draining.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    async with asyncio.timeout(20):
        assert await serve(main, grace_s=60) == 1


async def test_work_that_fails_ends_a_drain_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle, "LAST_DRAINS_S", 0.01)

    async def main(service: Service) -> None:
        service.on_drain("publish", asyncio.Event().wait)
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await service.stopping.wait()
        raise ValueError("broken")

    async with asyncio.timeout(20):
        assert await serve(main, grace_s=60) == 1
    assert "broken" in capsys.readouterr().err


async def test_work_that_fails_during_the_drains_does_not_prevent_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        failed = asyncio.Event()

        async def drain(name: str) -> None:
            failed.set()
            for _ in range(20):  # the work fails meanwhile
                await asyncio.sleep(0)
            events.append(name)

        service.on_drain("intake", lambda: drain("intake"))
        service.on_drain("flush", lambda: drain("flush"))
        service.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await failed.wait()
        raise ValueError("broken")

    assert await serve(main, grace_s=60) == 1
    assert events == ["intake", "flush"]
    assert "broken" in capsys.readouterr().err


async def test_work_that_fails_by_itself_has_closed_what_the_drains_would_use() -> None:
    events: list[str] = []

    async def main(service: Service) -> None:
        service.on_drain("flush", noting(events, "flush"))
        service.ready()
        raise ValueError("broken")

    assert await serve(main, grace_s=60) == 1
    assert events == []


async def test_stopping_cancels_the_work_and_raises_its_errors() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def breaks() -> None:
        raise ValueError("broken")

    async def main(service: Service) -> None:
        with pytest.raises(ExceptionGroup, match="unhandled"):
            await service.until_stopping(breaks())
        service.stopping.set()
        await service.until_stopping(forever())

    assert await serve(main) == 0


async def test_the_announce_file_exists_while_the_service_runs(tmp_path: Path) -> None:
    announce = tmp_path / "services" / "trainer.json"

    async def main(service: Service) -> None:
        assert not announce.exists()
        service.ready("unix:/run/x.sock")
        assert json.loads(announce.read_text()) == {
            "service": "trainer",
            "pid": os.getpid(),
            "pid_namespace": pid_namespace(),
            "start_ticks": start_ticks(os.getpid()),
            "place": str(announce),
            "address": "unix:/run/x.sock",
            "metrics_port": service.metrics_port,
        }

    assert await serve(main, announce=announce) == 0
    assert not announce.exists()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /" + b"a" * 10_000 + b"\r\n\r\n", 400),
        (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", 200),
    ],
)
async def test_the_http_port_rejects_odd_requests_with_plain_statuses(request_bytes: bytes, status: int) -> None:
    async def main(service: Service) -> None:
        assert (await get(service.metrics_port, "", request_bytes))[0] == status

    assert await serve(main) == 0


@pytest.mark.parametrize(("error", "code"), [(ConfigurationError("no such device"), 2), (DeviceLost("cuda:0 is unusable"), 1)])
async def test_a_device_lost_during_the_start_is_no_refusal_since_a_restart_mends_it(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    async def main(service: Service) -> None:
        raise error

    assert await serve(main) == code
    assert f"trainer: {error}\n" in capsys.readouterr().err


@pytest.mark.parametrize(("was_ready", "code"), [(False, 2), (True, 1)])
async def test_an_exception_in_the_rules_of_a_game_is_reported_once_as_rule_and_line(
    capsys: pytest.CaptureFixture[str], fault_in_rules: Exception, was_ready: bool, code: int
) -> None:
    async def main(service: Service) -> None:
        if was_ready:
            service.ready()
        raise ExceptionGroup("lanes", [fault_in_rules, fault_in_rules])

    assert await serve(main) == code
    told = capsys.readouterr().err
    assert told.count("trainer: play of TicTacToe raised TypeError: ") == 1
    assert "tic_tac_toe.py, line " in told
    assert "Traceback" not in told


async def test_a_metrics_port_in_use_is_refused_with_a_clear_message(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(service: Service) -> None:
        await service.stopping.wait()

    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        assert await serve(main, metrics_port=port) == 2
    finally:
        server.close()
    assert f"trainer: metrics address 127.0.0.1:{port} cannot be used" in capsys.readouterr().err


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def until_logged(child: asyncio.subprocess.Process, event: str) -> None:
    assert child.stderr is not None
    while (line := await child.stderr.readline()) and event.encode() not in line:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_with_0_after_its_drains(number: signal.Signals) -> None:
    async with process() as child:
        await until_logged(child, "service.ready")
        child.send_signal(number)
        out, err = await child.communicate()
    assert child.returncode == 0
    lines = out.decode().splitlines()
    assert [line for line in lines if not line.startswith("left")] == ["intake, ready=False", "flush"]
    assert f"left, pid={child.pid}" in lines
    assert '"event": "service.ended"' in err.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "code", "text"),
    [
        ("refused", 2, "trainer: port 1 is taken; set another"),
        ("fails_later", 1, "trainer: the far side went away"),
        ("ends", 0, "service.ended"),
    ],
)
async def test_the_exit_code_reports_how_the_service_ended(mode: str, code: int, text: str) -> None:
    async with process("--mode", mode) as child:
        _, err = await child.communicate()
    assert child.returncode == code
    assert text in err.decode()
    assert "Traceback" not in err.decode()


@pytest.mark.slow
async def test_a_hanging_drain_is_given_up_after_the_grace_time() -> None:
    async with process("--mode", "drain_hangs", "--grace-s", "0.2") as child:
        await until_logged(child, "service.ready")
        child.terminate()
        await child.communicate()
    assert child.returncode == 1


@pytest.mark.slow
async def test_a_service_without_its_parent_does_not_start() -> None:
    async with process("--parent-pid", "1") as child:
        await child.communicate()
    assert child.returncode == 1


async def parent_of_a_service(*arguments: str) -> asyncio.subprocess.Process:
    """Start a process that starts the service and passes its input and output through."""
    starts = (
        "import os, subprocess, sys; "
        f"subprocess.run([sys.executable, {str(PROGRAM)!r}, '--parent-pid', str(os.getpid()), *sys.argv[1:]], check=False)"
    )
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-c", starts, *arguments, stdin=pipe, stderr=pipe)


@pytest.mark.slow
async def test_a_service_ends_with_its_parent() -> None:
    parent = await parent_of_a_service()
    await until_logged(parent, "service.ready")
    parent.kill()
    await parent.wait()
    assert parent.stderr is not None
    rest = await asyncio.wait_for(parent.stderr.read(), timeout=20)
    assert b'"signal": "SIGTERM"' in rest
    assert b"service.ended" in rest


@pytest.mark.slow
async def test_a_stop_of_all_processes_and_then_the_supervisors_own_leave_the_drains_of_a_service_their_time() -> None:
    async with process("--mode", "drain_waits", "--parent-pid", str(os.getpid())) as child:
        await until_logged(child, "service.ready")
        child.terminate()
        await until_logged(child, '"again": false')
        child.terminate()
        await until_logged(child, '"again": true')
        out, _ = await asyncio.wait_for(child.communicate(b"saved\n"), timeout=20)
    assert child.returncode == 0
    assert "flush" in out.decode()


@pytest.mark.slow
async def test_the_next_supervisor_leaves_the_services_of_a_killed_one_their_time_to_drain(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    parent = await parent_of_a_service("--mode", "drain_waits", "--announce", str(paths.announce("trainer")))
    await until_logged(parent, "service.ready")
    parent.kill()
    await until_logged(parent, '"again": false')
    ending = asyncio.create_task(asyncio.to_thread(end_leftovers, paths))
    await until_logged(parent, '"again": true')
    assert parent.stdin is not None
    assert parent.stderr is not None
    parent.stdin.write(b"saved\n")
    rest = await asyncio.wait_for(parent.stderr.read(), timeout=20)
    assert len(await ending) == 1
    await parent.wait()
    assert b'"drain": "flush"' in rest
    assert b'"exit_code": 0' in rest
