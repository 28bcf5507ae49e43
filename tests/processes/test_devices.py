"""A run on two devices: both servers have each champion, and one that is killed stops neither the other nor the run."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.errors import Unavailable
from zerofleet.evaluators.control import ModelControl
from zerofleet.presets.experiment import read_experiment
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.supervisor.overview import live_services
from zerofleet.supervisor.pages import MetricsPage, fetch_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes

MODEL = "tic_tac_toe"
SERVERS = ("inference_server-0", "inference_server-1")
LENIENT = ("--set", "gate.mode=share", "--set", "gate.share=0.2")

StartRun = Callable[..., AbstractAsyncContextManager[Any]]
CheckPromises = Callable[..., Any]


async def until_both_have(run: Any, version: int) -> None:
    """Wait until both servers serve a version or a later champion; a server that restarts is waited for."""
    for index in range(2):
        async with ModelControl(run.paths.device_address(index)) as control:
            while await newest_of(control) < version:  # noqa: ASYNC110 - a server is asked by the clock
                await asyncio.sleep(0.05)


async def newest_of(control: ModelControl) -> int:
    """Return the newest version of a server, 0 without one and while it does not answer."""
    try:
        return max((await control.loaded()).get(MODEL, [0]))
    except Unavailable:
        return 0


async def page_of(run: Any, service: str) -> MetricsPage:
    """Return the metrics of a service."""
    ports = {one.name: one.metrics_port for one in live_services(run.paths)}
    page = await fetch_page(ports[service], None)
    assert page is not None
    return page


async def until_finished(run: Any, worker: str, more: int) -> None:
    """Wait until a worker has finished more games than now."""
    name = "zerofleet_games_finished_total"
    before = (await page_of(run, worker)).total(name)
    while (await page_of(run, worker)).total(name) < before + more:  # noqa: ASYNC110 - a page is looked at by the clock
        await asyncio.sleep(0.05)


async def test_a_run_on_two_devices_goes_on_while_a_server_dies_and_both_serve_each_champion(
    start_run: StartRun, check_promises: CheckPromises, tmp_path: Path
) -> None:
    async with start_run("--devices", "cpu,cpu", *LENIENT) as run:
        await run.until(r"candidate 1 promoted: first champion")
        await until_both_have(run, 1)
        pids = {name: await run.pid_once_announced(name) for name in (*SERVERS, "worker-0", "worker-1")}
        for name in SERVERS:
            page = await page_of(run, name)
            assert page.by("zerofleet_inference_device", "device") == {"cpu": 1.0}
        os.kill(pids["inference_server-1"], signal.SIGKILL)
        await run.until(r"inference_server-1 was killed by SIGKILL; restarting")
        await until_finished(run, "worker-0", 4)
        await run.until(r"candidate \d+ promoted against")
        champion = DirectoryStore(run.paths.models).champion(MODEL)
        assert champion is not None
        await until_both_have(run, champion.version)
        await until_finished(run, "worker-1", 4)
        assert {name: run.pid(name) for name in ("worker-0", "worker-1")} == {n: pids[n] for n in ("worker-0", "worker-1")}
        assert run.pid("inference_server-0") == pids["inference_server-0"]
        assert run.pid("inference_server-1") != pids["inference_server-1"]
        for name in SERVERS:
            assert (await page_of(run, name)).total("zerofleet_inference_positions_total") > 0
        text = await run.end()
    assert run.process.returncode == 0, text
    assert "--workers 2 --devices cpu,cpu" in text
    assert read_experiment(run.paths.experiment).devices == ("cpu", "cpu")
    await check_promises(run.paths, ended_cleanly=True)

    async with start_run(*LENIENT) as run:  # on its own devices
        await run.until(r"candidate \d+ promoted against")
        assert {name for name in (one.name for one in live_services(run.paths)) if "server" in name} == set(SERVERS)
        text = await run.end()
    assert run.process.returncode == 0, text

    async with start_run("--devices", "cpu", *LENIENT) as run:
        await run.until(r"candidate \d+ promoted against")
        assert [one.name for one in live_services(run.paths) if "server" in one.name] == ["inference_server"]
        text = await run.end()
    assert run.process.returncode == 0, text
    await check_promises(run.paths, ended_cleanly=True)


async def test_a_device_that_does_not_exist_is_refused_before_a_run_is_created(start_run: StartRun, tmp_path: Path) -> None:
    async with start_run("--devices", "cpu,cuda:999") as run:
        text = await run.rest()
    assert run.process.returncode == 2
    assert text.startswith("error: device cuda:999 does not exist: torch finds ")
    assert "; want cpu" in text
    assert not (tmp_path / "run").exists()
