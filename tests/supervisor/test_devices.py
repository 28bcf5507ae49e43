"""Runs on several devices: plan of the processes, check of the devices, and the figures of each server."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from games.core import make
from gatekeeper.settings import GatekeeperSettings
from inference_server.device_report import check_present
from inference_server.settings import ServerSettings
from selfplay_worker.settings import WorkerSettings
from zerofleet.errors import ConfigurationError
from zerofleet.presets import preset
from zerofleet.service.settings import read_settings
from zerofleet.storage.run_paths import LONGEST_SOCKET_PATH, RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor import RunRequest
from zerofleet.supervisor.borrowed import gatekept, live_address
from zerofleet.supervisor.child import ChildPlan
from zerofleet.supervisor.device_check import require_devices
from zerofleet.supervisor.fleet import plan_fleet
from zerofleet.supervisor.pages import MetricsPage
from zerofleet.supervisor.servers import ServerMeter


def plans(root: Path, *devices: str, workers: int) -> dict[str, ChildPlan]:
    request = RunRequest("tic_tac_toe", root, preset="tiny", workers=workers, devices=devices)
    with RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=5) as directory:
        chosen = preset(request.build_game(), "tiny")
        return {plan.name: plan for plan in plan_fleet(request, directory, chosen, {})}


def test_each_device_has_a_server_each_worker_one_of_them_and_the_gatekeeper_loads_on_all(tmp_path: Path) -> None:
    made = plans(tmp_path / "r", "cuda:0", "cuda:1", workers=5)
    assert list(made)[:3] == ["inference_server-0", "inference_server-1", "gatekeeper"]
    servers = [read_settings(ServerSettings, made[f"inference_server-{i}"].command[3:], {})[0] for i in range(2)]
    assert [server.device for server in servers] == ["cuda:0", "cuda:1"]
    addresses = [server.address for server in servers]
    assert len(set(addresses)) == 2
    workers = [read_settings(WorkerSettings, made[f"worker-{i}"].command[3:], {})[0] for i in range(5)]
    assert [addresses.index(worker.inference_address) for worker in workers] == [0, 1, 0, 1, 0]
    gatekeeper, _ = read_settings(GatekeeperSettings, made["gatekeeper"].command[3:], {})
    assert (gatekeeper.inference_address, gatekeeper.control_address) == (addresses[0], ",".join(addresses))
    assert len({plan.announce for plan in made.values()}) == len({plan.log for plan in made.values()}) == len(made)
    assert {plan.kind for name, plan in made.items() if "server" in name} == {"inference_server"}


def test_a_run_on_one_device_has_the_names_and_arguments_of_a_run_without_devices(tmp_path: Path) -> None:
    without, one = plans(tmp_path / "r", workers=2), plans(tmp_path / "r", "cpu", workers=2)
    assert list(without) == list(one) == ["inference_server", "gatekeeper", "trainer", "worker-0", "worker-1"]
    arguments = without["inference_server"].command
    assert "--device" not in arguments
    assert one["inference_server"].command == (*arguments, "--device", "cpu")
    for name in ("gatekeeper", "worker-0", "worker-1"):
        assert without[name].command == one[name].command


def test_the_socket_of_a_device_fits_where_that_of_the_gatekeeper_does() -> None:
    for length in range(1, LONGEST_SOCKET_PATH):
        paths = RunPaths(Path("/" + "r" * length))
        assert len(os.fsencode(paths.device_address(99).removeprefix("unix:"))) <= LONGEST_SOCKET_PATH


@pytest.mark.parametrize(
    ("devices", "gpus", "text"),
    [
        (["cuda:0"], 0, "device cuda:0 does not exist: torch finds no GPU; want cpu"),
        (["cuda:0", "cuda:1"], 1, "device cuda:1 does not exist: torch finds 1 GPU; want cpu or cuda:0"),
        (["cuda:2", "cpu"], 2, "device cuda:2 does not exist: torch finds 2 GPUs; want cpu or cuda:0 or cuda:1"),
    ],
)
def test_a_device_that_does_not_exist_is_refused_with_those_that_do(devices: list[str], gpus: int, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{text}$"):
        check_present(devices, gpus)


def test_devices_that_exist_are_accepted() -> None:
    check_present(["cpu", "cuda:1", "cuda:0", "cuda:1"], 2)


def test_cpus_are_accepted_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    require_devices((), {})
    require_devices(("cpu", "cpu"), {})


@pytest.mark.slow
def test_the_refusal_of_a_missing_device_names_the_command_that_lists_them() -> None:
    with pytest.raises(ConfigurationError, match=r"^device cuda:999 does not exist: .*; `zerofleet doctor` lists the devices$"):
        require_devices(("cpu", "cuda:999"), os.environ)


def page(device: str, positions: float) -> MetricsPage:
    return MetricsPage(
        f'zerofleet_inference_device{{device="{device}"}} 1.0\n'
        "# TYPE zerofleet_inference_positions_total counter\n"
        f'zerofleet_inference_positions_total{{model="tic_tac_toe"}} {positions}\n'
    )


def test_the_share_of_a_server_is_that_of_the_recent_positions() -> None:
    meter = ServerMeter()
    for at_s, first, second in ((0.0, 5000.0, 0.0), (10.0, 5300.0, 100.0)):
        meter.take(at_s, {"inference_server-0": page("cpu", first), "inference_server-1": page("cuda:0", second)})
    assert [meter.share(f"inference_server-{index}") for index in range(2)] == [0.75, 0.25]
    assert [meter.device(f"inference_server-{index}") for index in range(2)] == ["cpu", "cuda:0"]
    assert (meter.device("trainer"), math.isnan(meter.share("trainer"))) == ("", True)


def test_the_only_server_has_no_share() -> None:
    meter = ServerMeter()
    for at_s in (0.0, 10.0):
        meter.take(at_s, {"inference_server": page("cpu", at_s)})
    assert (meter.device("inference_server"), math.isnan(meter.share("inference_server"))) == ("", True)


def test_commands_use_the_first_live_server_of_several(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    paths.services.mkdir()
    for index in (1, 2, 10):
        text = f'{{"pid": {os.getpid()}, "address": "unix:/{index}", "metrics_port": 1}}'
        paths.announce(f"inference_server-{index}").write_text(text)
    assert live_address(paths, "inference_server") == "unix:/1"
    paths.announce("inference_server-1").unlink()
    assert live_address(paths, "inference_server") == "unix:/2"


async def test_a_gatekeeper_that_is_started_for_a_promotion_loads_on_all_live_servers(tmp_path: Path, monkeypatch) -> None:
    paths = RunPaths(tmp_path)
    paths.services.mkdir()
    for index in range(2):
        text = f'{{"pid": {os.getpid()}, "address": "{paths.device_address(index)}", "metrics_port": 1}}'
        paths.announce(f"inference_server-{index}").write_text(text)
    started: list[tuple[str, ...]] = []

    @contextlib.asynccontextmanager
    async def start(service: str, *given: object, token: str) -> AsyncIterator[tuple[str, str]]:
        started.append((service, *map(str, given[2:]), token))
        yield "unix:/started.sock", token

    monkeypatch.setattr("zerofleet.supervisor.borrowed._started", start)
    async with gatekept(paths, make("tic_tac_toe")) as address:
        assert address == "unix:/started.sock"
    both = f"{paths.device_address(0)},{paths.device_address(1)}"
    ours = ("--inference-address", paths.device_address(0), "--control-address", both)
    assert started == [("gatekeeper", "--by-hand-only", "true", *ours, "")]
