"""Cluster of a run: the load of each part as `zerofleet plan` computes it, beside what the services of the run measure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from games.core import Game
from zerofleet.errors import ConfigurationError
from zerofleet.library.planning.costs import Costs, read_costs
from zerofleet.library.planning.plan import HOUR_S, Limits, Plan, make_plan
from zerofleet.library.values import Value
from zerofleet.presets import Preset
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.servers import is_server

__all__ = ["NEAR_CAPACITY", "Cluster", "FleetFigure", "Part", "Planned", "cluster_of", "plan_for"]

NEAR_CAPACITY = 0.8
"""Measured share from which a part counts as the one that limits the run."""

_WORKER = "worker-"
_FLOWS = (
    "games per hour",
    "evaluations per second",
    "requests per second",
    "samples per second to the trainer",
    "uses of each sample",
)


class Part(Value):
    """Part of a fleet with the used share of its capacity, in [0, 1]; a measured share may exceed it."""

    name: str
    planned: float | None
    """As planned; None for a part that the plan does not have, and without a plan."""
    measured: float | None
    """None while it is not measured."""
    basis: str
    """Source of the measured share; `not measured` without one."""


class FleetFigure(Value):
    """Flow of a fleet."""

    name: str
    planned: float | None
    measured: float | None


class Cluster(Value):
    """Plan of a fleet beside the measurements of a run."""

    is_live: bool
    """Whether the measurements are those of the services; else they are those of the newest row of the files."""
    at: datetime | None
    """Time of the measurements; None for a run without any."""
    preset: str
    """Preset of the run."""
    gpus: int
    """Devices planned for."""
    workers: int
    """Self-play workers planned for."""
    live_workers: int
    plan: Plan | None
    """The plan, as `zerofleet plan --json` prints it; None without one."""
    fault: str
    """Reason for which there is no plan; empty with one."""
    measured_first: str
    """Part with the largest measured share; empty without measurements."""
    is_near: bool
    """Whether that share is near the capacity."""
    parts: tuple[Part, ...]
    figures: tuple[FleetFigure, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """Plan of a fleet with what it was made from."""

    plan: Plan
    costs: Costs
    preset: Preset
    limits: Limits

    @property
    def learner(self) -> float:
        """Share of the trainer's time for steps that would reach the preset's maximum reuse, at most 1."""
        return min(1.0, self.preset.train.max_reuse * self.plan.samples_per_second / self.costs.samples_per_second)


def plan_for(game: Game, costs: Path | None, *, gpus: int, workers: int) -> Planned:
    """Return the plan that `zerofleet plan` computes with the same options.

    Raises `ConfigurationError` if the cost file, or the shipped example for None, has no costs of this game and its preset.
    """
    (known, chosen), limits = read_costs(costs, game=game), Limits()
    return Planned(make_plan(known, chosen, gpus=gpus, workers=workers, limits=limits), known, chosen, limits)


def cluster_of(
    now: Readings,
    game: Game,
    costs: Path | None,
    *,
    preset_name: str,
    at: datetime | None,
    is_live: bool,
    gpus: int | None = None,
    workers: int | None = None,
) -> Cluster:
    """Return the plan beside a reading; by default for the inference servers and workers that are alive, at least one each."""
    live = [one for one in now.services if one.name.startswith(_WORKER)] if is_live else []
    servers = sum(is_server(one.name) for one in now.services) if is_live else 0
    gpus, workers = gpus or max(1, servers), workers or max(1, len(live))
    planned, fault = None, ""
    try:
        planned = plan_for(game, costs, gpus=gpus, workers=workers)
    except ConfigurationError as error:
        fault = str(error)
    parts = _parts(now, planned, is_live=is_live)
    measured = {part.name: part.measured for part in parts if part.measured is not None}
    first = max(measured, key=lambda name: measured[name], default="")
    return Cluster(
        is_live=is_live,
        at=at,
        preset=preset_name,
        gpus=gpus,
        workers=workers,
        live_workers=len(live),
        plan=None if planned is None else planned.plan,
        fault=fault,
        measured_first=first,
        is_near=bool(first) and measured[first] >= NEAR_CAPACITY,
        parts=parts,
        figures=_figures(now, None if planned is None else planned.plan),
    )


def _parts(now: Readings, planned: Planned | None, *, is_live: bool) -> tuple[Part, ...]:
    load = {} if planned is None else planned.plan.load
    shares = _processors(now) if is_live else {}
    shares["inference servers"] = (now.device_busy, "time in which the device is busy")
    shares["trainer's steps"] = (now.learner_busy, "time in which the trainer takes steps")
    waiting = now.lag + now.pending
    if is_live:
        high_water = (planned.limits if planned is not None else Limits()).high_water
        shares["stream"] = (waiting / high_water, f"{waiting:,} of {high_water:,} games wait; then workers wait")
    if planned is not None:
        shares["trainer's intake"] = (
            now.games_per_hour / HOUR_S / planned.costs.games_taken_per_second,
            "games finished per second over the intake in the cost file",
        )
    order = dict.fromkeys((*load, *shares))
    others = {} if planned is None else {"trainer's steps": planned.learner}
    return tuple(
        Part(
            name=name,
            planned=(load | others).get(name),
            measured=_finite(share),
            basis=basis if math.isfinite(share) else "not measured",
        )
        for name in order
        for share, basis in (shares.get(name, (math.nan, "not measured")),)
    )


def _processors(now: Readings) -> dict[str, tuple[float, str]]:
    """Return the shares of processor cores: those of the workers, one core each, and of all services together."""
    workers = [one.cores for one in now.services if one.name.startswith(_WORKER) and math.isfinite(one.cores)]
    used = [one.cores for one in now.services if math.isfinite(one.cores)]
    known = psutil.cpu_count() or 1
    shares = {}
    if workers:
        mean = sum(workers) / len(workers)
        shares["workers"] = (mean, f"{mean:.2f} of one core each, {len(workers)} alive")
    if used:
        shares["processor"] = (sum(used) / known, f"{sum(used):.2f} of {known} cores of this machine, all services")
    return shares


def _figures(now: Readings, plan: Plan | None) -> tuple[FleetFigure, ...]:
    planned = {} if plan is None else dict(zip(_FLOWS, _planned_flows(plan), strict=True))
    measured = (now.games_per_hour, now.evaluations_per_s, math.nan, math.nan, now.reuse or math.nan)
    return tuple(
        FleetFigure(name=name, planned=planned.get(name), measured=_finite(value))
        for name, value in zip(_FLOWS, measured, strict=True)
    )


def _planned_flows(plan: Plan) -> tuple[float, ...]:
    rates = (plan.games_per_hour, plan.evaluations_per_second, plan.requests_per_second, plan.samples_per_second)
    return (*rates, plan.uses_of_a_sample)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
