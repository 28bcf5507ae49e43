"""Page of the cluster: the figures of `zerofleet plan`, beside those of the run."""

from __future__ import annotations

import dataclasses
import json

import httpx
import pytest

import games
from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.cli import main
from zerofleet.library.cluster import cluster_of
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.processor_time import ProcessorTime
from zerofleet.supervisor.readings import Readings, ServiceReading

GAME = games.make("connect_four")


def services(**cores: float) -> tuple[ServiceReading, ...]:
    return tuple(
        ServiceReading(name.replace("_", "-"), ChildState.READY, 9.0, 0, 1 << 20, used) for name, used in cores.items()
    )


def of(now: Readings, **options):
    return cluster_of(now, GAME, None, preset_name="laptop", at=None, is_live=True, **options)


async def test_the_plan_is_that_of_zerofleet_plan(tmp_path, capsys, connected):
    with RunDirectory.create_or_open(tmp_path / "four", "connect_four", {}, preset="laptop", seed=1):
        pass
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        shown = (await client.get("/api/v1/runs/four/cluster?gpus=3&workers=50")).json()
    with pytest.raises(SystemExit):
        main(["plan", "--gpus", "3", "--workers", "50", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert shown["plan"] == told
    planned = {part["name"]: part["planned"] for part in shown["parts"] if part["name"] in told["load"]}
    assert planned == told["load"]
    assert shown["figures"][0]["planned"] == told["games_per_hour"]
    assert (shown["is_live"], shown["measured_first"], shown["fault"]) == (False, "", "")


def test_the_plan_is_for_the_live_servers_and_workers():
    now = Readings(services=services(worker_0=0.4, worker_1=0.4, worker_2=0.4))
    one = ServiceReading("inference_server-0", ChildState.READY, 9.0, 0, 1 << 20)
    several = Readings(services=(*now.services, one, one._replace(name="inference_server-1")))
    assert [(found.gpus, found.workers) for found in map(of, (now, several))] == [(1, 3), (2, 3)]


async def test_a_game_without_costs_has_its_measurements_and_the_command_that_measures_them(client: httpx.AsyncClient):
    shown = (await client.get("/api/v1/runs/golden/cluster")).json()
    assert "zerofleet bench" in shown["fault"]
    assert shown["plan"] is None
    assert {part["planned"] for part in shown["parts"]} == {None}
    refused = await client.get("/api/v1/runs/golden/cluster?workers=0")
    assert (refused.status_code, "workers='0'" in refused.json()["error"]) == (400, True)


def test_the_part_with_the_largest_share_is_named_and_near_its_capacity_or_not():
    busy = of(Readings(device_busy=0.93, learner_busy=0.2, services=services(worker_0=0.4, worker_1=0.6)))
    assert (busy.measured_first, busy.is_near, busy.workers) == ("inference servers", True, 2)
    measured = {part.name: part.measured for part in busy.parts}
    assert measured["workers"] == pytest.approx(0.5)
    assert measured["trainer's steps"] == 0.2
    idle = of(Readings(device_busy=0.1, services=services(worker_0=0.0)))
    assert (idle.measured_first, idle.is_near) == ("inference servers", False)


def test_a_full_stream_is_the_part_that_limits_the_run():
    full = of(Readings(device_busy=0.1, lag=9_000, pending=900))
    assert (full.measured_first, full.is_near) == ("stream", True)


def test_a_stopped_run_has_no_shares_of_processes_that_are_gone():
    now = Readings(device_busy=0.5, services=services(worker_0=0.9))
    stopped = cluster_of(now, GAME, None, preset_name="laptop", at=None, is_live=False)
    assert {part.name for part in stopped.parts if part.measured is not None} == {"inference servers"}
    assert (stopped.live_workers, stopped.workers) == (0, 1)


def test_cores_are_processor_time_per_time_and_begin_again_with_another_process(monkeypatch):
    spent = {1: iter([10.0, 11.5]), 2: iter([0.0, 4.0])}
    times = dataclasses.make_dataclass("Times", ["user", "system"])

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def cpu_times(self):
            return times(next(spent[self.pid]), 0.0)

    monkeypatch.setattr("zerofleet.supervisor.processor_time.psutil.Process", Process)
    meter = ProcessorTime()
    meter.take(100.0, 1)
    assert meter.cores != meter.cores  # NaN
    meter.take(102.0, 1)
    assert meter.cores == pytest.approx(0.75)
    meter.take(103.0, 2)
    assert meter.cores != meter.cores
    meter.take(105.0, 2)
    assert meter.cores == pytest.approx(2.0)
    meter.take(106.0, None)
    assert meter.cores != meter.cores
