"""Runs in a folder: what each trains, whether it is alive, and how far it got. Read from files alone."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from games.errors import GameError
from zerofleet.errors import ZerofleetError
from zerofleet.library.metrics import Metrics, MetricsReader
from zerofleet.library.overview import Overview as State
from zerofleet.library.values import Value
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.overview import Overview, overview

__all__ = [
    "ANCHORED_MARGIN_ELO",
    "RunFault",
    "RunList",
    "RunRow",
    "RunStatus",
    "anchored_rows",
    "list_runs",
    "run_name",
    "run_row",
    "runs_in",
]

TREND_POINTS = 40
ANCHORED_MARGIN_ELO = 1000.0
"""Half width of a 95 % interval from which a rating has no anchor: too few games against the rungs."""


class RunRow(Value):
    """Row of the list of runs."""

    name: str
    """Name of the run directory."""
    game: str
    parameters: dict[str, str]
    """Parameters that differ from the game's defaults."""
    preset: str
    created_at: datetime
    is_alive: bool
    """Whether a service of the run is alive on this machine."""
    services: tuple[str, ...]
    """Services that are alive."""
    last_seen_at: datetime | None
    """Time of the newest row of its metrics."""
    champion: int | None
    rated_version: int | None
    """Version of the rating: the champion or, while that has no game against the rungs, the newest version that has."""
    elo: float | None
    """Rating with `random` at 0; None while no version is anchored by games against the rungs."""
    elo_low: float | None
    """Lower end of the 95 % interval."""
    elo_high: float | None
    """Upper end of the 95 % interval."""
    games_stored: int
    step: int
    loss_trend: tuple[float, ...]
    """Mean loss over the run, oldest first."""
    elo_trend: tuple[float, ...]
    """Rating over the run, oldest first, anchored ratings alone."""


class RunStatus(RunRow):
    """Run with its present state."""

    overview: State


class RunFault(Value):
    """Directory that cannot be read as a run."""

    name: str
    fault: str


class RunList(Value):
    """Runs of a folder, newest first, and directories that cannot be read."""

    runs: tuple[RunRow, ...]
    unreadable: tuple[RunFault, ...]


def runs_in(folder: Path) -> dict[str, RunPaths]:
    """Return the run directories of a folder by name, sorted: those with a run.json. A link to one has the name of the link."""
    return {_printed(path.parent.name): RunPaths(path.parent) for path in sorted(folder.glob("*/run.json"))}


def run_name(root: Path) -> str:
    """Return the name of a run directory; invalid UTF-8 in it is escaped."""
    return _printed(root.resolve().name)


def _printed(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")


def list_runs(found: Mapping[str, RunPaths]) -> RunList:
    """Return a row for each run, newest first; unreadable ones with their fault."""
    rows, faults = [], []
    for name, paths in found.items():
        try:
            rows.append(run_row(name, overview(paths.root)))
        except (ZerofleetError, GameError, OSError, ValueError) as error:  # a game that is not installed, a store that is away
            faults.append(RunFault(name=name, fault=str(error)))
    return RunList(runs=tuple(sorted(rows, key=lambda row: row.created_at, reverse=True)), unreadable=tuple(faults))


def run_row(name: str, found: Overview, *, metrics: Metrics | None = None) -> RunRow:
    """Return the row of a run; `metrics` are read where they are not given. Raises `OSError`."""
    header, rung = found.header, found.rung
    metrics = MetricsReader(found.paths.metrics).read() if metrics is None else metrics
    newest_s = max([*metrics["trainer.time_s"][-1:], *metrics["run.time_s"][-1:]], default=math.nan)
    return RunRow(
        name=name,
        game=header.game,
        parameters=header.parameters,
        preset=header.preset,
        created_at=header.created_at,
        is_alive=found.is_alive,
        services=tuple(service.name for service in found.services),
        last_seen_at=None if math.isnan(newest_s) else datetime.fromtimestamp(newest_s, UTC),
        champion=None if found.champion is None else found.champion.version,
        rated_version=None if rung is None else int(rung.name.removeprefix("model:")),
        elo=None if rung is None else rung.elo,
        elo_low=None if rung is None else rung.elo_low,
        elo_high=None if rung is None else rung.elo_high,
        games_stored=max(_last(metrics["trainer.games_ever"]), _last(metrics["run.games_stored"])),
        step=max(_last(metrics["trainer.step"]), _last(metrics.get("run.step", np.empty(0)))),
        loss_trend=_trend(metrics["trainer.loss_total"]),
        elo_trend=_trend(np.where(anchored_rows(metrics), metrics["run.champion_elo"], np.nan)),
    )


def anchored_rows(metrics: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return, for each row of the run's metrics, whether its rating of the champion is anchored: bool [rows]."""
    low, high = (metrics[f"run.champion_elo_{end}"] for end in ("low", "high"))
    known: np.ndarray = (high - low) / 2 < ANCHORED_MARGIN_ELO  # False for nan
    return known


def _last(column: np.ndarray) -> int:
    known = column[np.isfinite(column)]
    return int(known[-1]) if len(known) else 0


def _trend(column: np.ndarray) -> tuple[float, ...]:
    """Return the means of at most `TREND_POINTS` equal parts of the known values."""
    known = column[np.isfinite(column)]
    parts = np.array_split(known, min(TREND_POINTS, len(known))) if len(known) else []
    return tuple(float(part.mean()) for part in parts)
