"""Fleet of a run: services, their arguments, threads and priorities."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping

from zerofleet.presets import Preset
from zerofleet.presets.experiment import SERVICES
from zerofleet.service.ports import PAGE_PORT
from zerofleet.service.settings import ENVIRONMENT_PREFIX, ServiceSettings, read_settings
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.child import ChildPlan
from zerofleet.supervisor.request import RunRequest
from zerofleet.supervisor.servers import planned_servers

__all__ = ["PAGES", "grace_time_s", "plan_fleet", "service_environment"]

GRACE_S = 15.0
"""Grace time of a service where neither the run nor the environment sets one."""
BEHIND_THE_TRAINER = ("inference_server", "selfplay_worker")
"""Services of self-play. Where processors are scarce the trainer is what learning waits for, and they make more samples than it
can use; it leaves them the processors whenever it has used its samples as often as `train.max_reuse` allows."""
NICENESS = 5
"""Theirs: a third of the share of a process with niceness 0 (docs/results/speed_training.md)."""
PAGES = "ui"
PAGE_PORT_VARIABLE = f"{ENVIRONMENT_PREFIX}PAGE_PORT"
_GRACE_VARIABLE = f"{ENVIRONMENT_PREFIX}GRACE_S"
# Libraries with their own thread pools, by default one thread per core each.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def plan_fleet(
    request: RunRequest,
    run: RunDirectory,
    chosen: Preset,
    environment: Mapping[str, str],
    *,
    wall_clock: Callable[[], float] = time.time,
) -> tuple[ChildPlan, ...]:
    """Return the plan of each service, in the order of starting; the time of the request begins now."""
    end_s = 0.0 if request.duration_s is None else wall_clock() + request.duration_s
    threads = {"inference_server": chosen.inference.threads, "trainer": chosen.train.threads}
    plans = []
    for service in SERVICES:
        for name, own in _processes(request, run, service):
            arguments = _arguments(request, run, service, name, end_s, own)
            plans.append(
                ChildPlan(
                    name=name,
                    kind=service,
                    command=(sys.executable, "-m", service, *arguments),
                    environment=service_environment(request, environment, threads=threads.get(service, 1)),
                    announce=run.paths.announce(name),
                    log=run.paths.log(name),
                    grace_s=grace_time_s(request, service, environment),
                    niceness=NICENESS if service in BEHIND_THE_TRAINER else 0,
                )
            )
    if request.has_pages:
        plans.append(_pages(request, run, environment))
    return tuple(plans)


def _processes(request: RunRequest, run: RunDirectory, service: str) -> list[tuple[str, dict[str, str]]]:
    """Return the name of each process of a service, and the arguments that follow from the devices of the run."""
    servers = planned_servers(run.paths, request.devices)
    is_single = len(servers) == 1
    if service == "inference_server":
        return [
            (one.name, {**({} if is_single else {"address": one.address}), **({"device": one.device} if one.device else {})})
            for one in servers
        ]
    if service == "selfplay_worker":
        asked = [servers[index % len(servers)].address for index in range(request.workers)]
        return [(f"worker-{index}", {} if is_single else {"inference-address": address}) for index, address in enumerate(asked)]
    if service == "gatekeeper" and not is_single:
        everywhere = ",".join(one.address for one in servers)
        return [(service, {"inference-address": servers[0].address, "control-address": everywhere})]
    return [(service, {})]


def _pages(request: RunRequest, run: RunDirectory, environment: Mapping[str, str]) -> ChildPlan:
    """Return the plan of the web application; it is the last to start and the first to stop, and the run does not need it."""
    port = {} if PAGE_PORT_VARIABLE in environment else {"page-port": str(_page_port())}
    arguments = {**_common_arguments(run, PAGES), "runs": "", **port}
    return ChildPlan(
        name=PAGES,
        kind=PAGES,
        command=(sys.executable, "-m", PAGES, *(word for key, value in arguments.items() for word in (f"--{key}", value))),
        environment=service_environment(request, environment, threads=1),
        announce=run.paths.announce(PAGES),
        log=run.paths.log(PAGES),
        grace_s=grace_time_s(request, PAGES, environment),
        is_needed=False,
    )


def _page_port() -> int:
    """Return the usual port of the pages, or 0 for a free one where another program has it."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", PAGE_PORT))
        except OSError:
            return 0
    return PAGE_PORT


def _common_arguments(run: RunDirectory, name: str) -> dict[str, str]:
    return {
        "run-dir": str(run.paths.root.absolute()),
        "announce": str(run.paths.announce(name).absolute()),
        "metrics-host": "127.0.0.1",
        "metrics-port": "0",
        "log-format": "json",
        "parent-pid": str(os.getpid()),
    }


def _arguments(
    request: RunRequest, run: RunDirectory, service: str, name: str, end_s: float, of_devices: Mapping[str, str]
) -> list[str]:
    values = {
        **_common_arguments(run, name),
        "game": run.header.game,
        "preset": request.preset,
        **{f"game-parameters.{key}": value for key, value in run.header.parameters.items()},
        **_own_arguments(run, service, name, end_s),
        **of_devices,
        **request.settings_of(service),
    }
    return [word for key, value in values.items() for word in (f"--{key}", value)]


def _own_arguments(run: RunDirectory, service: str, name: str, end_s: float) -> dict[str, str]:
    """Return the arguments specific to one kind of service; addresses follow from the run directory."""
    paths: RunPaths = run.paths
    common = {
        "inference_server": {"address": paths.inference_address},
        "gatekeeper": {"address": paths.gatekeeper_address, "seed": str(run.header.seed)},
        "trainer": {"seed": str(run.header.seed), "planned-end-s": f"{end_s:.0f}"},
        "selfplay_worker": {"worker-id": name, "run-seed": str(run.header.seed)},
    }
    return common[service]


def grace_time_s(request: RunRequest, service: str, inherited: Mapping[str, str]) -> float:
    """Return the grace time of a service as it reads it; raises `ConfigurationError`. `inherited`: as `service_environment`."""
    own = {name.replace("-", "_"): value for name, value in request.settings_of(service).items()}
    words = ["--grace-s", own["grace_s"]] if "grace_s" in own else []
    return read_settings(ServiceSettings, words, service_environment(request, inherited, threads=1))[0].grace_s


def service_environment(request: RunRequest, inherited: Mapping[str, str], *, threads: int) -> dict[str, str]:
    """Return the environment of a service: the inherited one, settings of the preset's parts, and sizes of thread pools.

    A grace time that is inherited takes precedence over that of runs.
    """
    overrides = {
        ENVIRONMENT_PREFIX + name.replace(".", "__").upper(): value
        for name, value in request.experiment.settings.items()
        if name.partition(".")[0] not in SERVICES
    }
    return {_GRACE_VARIABLE: f"{GRACE_S:g}", **inherited, **overrides, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
