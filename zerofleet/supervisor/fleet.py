"""Fleet of a run: services, their arguments and threads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

from zerofleet.presets import Preset
from zerofleet.presets.experiment import SERVICES
from zerofleet.service.settings import ENVIRONMENT_PREFIX
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.child import ChildPlan
from zerofleet.supervisor.request import RunRequest

__all__ = ["plan_fleet"]

GRACE_S = 15.0
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
        for index in range(request.workers if service == "selfplay_worker" else 1):
            name = f"worker-{index}" if service == "selfplay_worker" else service
            arguments = _arguments(request, run, service, name, end_s)
            plans.append(
                ChildPlan(
                    name=name,
                    kind=service,
                    command=(sys.executable, "-m", service, *arguments),
                    environment=_environment(request, environment, threads.get(service, 1)),
                    announce=run.paths.announce(name),
                    log=run.paths.log(name),
                    grace_s=GRACE_S,
                )
            )
    return tuple(plans)


def _arguments(request: RunRequest, run: RunDirectory, service: str, name: str, end_s: float) -> list[str]:
    values = {
        "run-dir": str(run.paths.root.absolute()),
        "game": run.header.game,
        "preset": request.preset,
        "announce": str(run.paths.announce(name).absolute()),
        "metrics-host": "127.0.0.1",
        "metrics-port": "0",
        "grace-s": f"{GRACE_S:g}",
        "log-format": "json",
        "parent-pid": str(os.getpid()),
        **{f"game-parameters.{key}": value for key, value in run.header.parameters.items()},
        **_own_arguments(run, service, name, end_s),
        **{
            key.partition(".")[2]: value
            for key, value in request.experiment.settings.items()
            if key.partition(".")[0] == service
        },
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


def _environment(request: RunRequest, inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    overrides = {
        ENVIRONMENT_PREFIX + name.replace(".", "__").upper(): value
        for name, value in request.experiment.settings.items()
        if name.partition(".")[0] not in SERVICES
    }
    return {**inherited, **overrides, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
