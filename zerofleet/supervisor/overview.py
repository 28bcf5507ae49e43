"""Overview of a run from its files: its header, champion, rating and last figures, and which of its services are alive."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic_core import from_json

from games.core import make
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import Champion, Rung
from zerofleet.service.process_identity import announce_place, pid_namespace, start_ticks
from zerofleet.service.settings import open_run_store
from zerofleet.storage.files import whole_lines
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunHeader, read_header
from zerofleet.strength.gate_record import read_record
from zerofleet.strength.ladders.standings import standings

__all__ = ["Overview", "ServiceFile", "latest_numbers", "live_service", "live_services", "overview"]

HISTORY_FILE = "run.jsonl"
_TAIL_BYTES = 64 << 10  # many lines of history
_CLOCK_SLACK_S = 2.0  # between a process's start, rounded by the kernel, and its announce file


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """A live service, by its announce file."""

    name: str
    pid: int
    address: str
    metrics_port: int
    started_at_s: float
    """Start of the process, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Overview:
    """State of a run."""

    paths: RunPaths
    header: RunHeader
    champion: Champion | None
    rung: Rung | None
    """Rating of the champion or, before it is anchored, of the newest anchored version; None without either."""
    services: tuple[ServiceFile, ...]

    @property
    def is_alive(self) -> bool:
        """Whether a service of the run is alive on this machine."""
        return bool(self.services)


def overview(root: Path, *, rungs: Sequence[Rung] | None = None) -> Overview:
    """Read a run, which may be in progress; `rungs` are its ratings, which are computed where they are not given.

    Raises `RunDirectoryError` for what is not a run, or is damaged.
    """
    header, paths = read_header(root), RunPaths(root)
    game = make(header.game, **header.parameters)
    model = model_name(game)
    history = open_run_store(paths).history(model)
    champion = history[-1] if history else None
    if rungs is None:
        rungs = standings(read_record(paths.gatekeeper, model, game), history)
    return Overview(paths, header, champion, _rated(champion, rungs), live_services(paths))


def live_services(paths: RunPaths) -> tuple[ServiceFile, ...]:
    """Return the services of a run that are alive on this machine, by name; those of another machine are not seen."""
    found = (live_service(path) for path in sorted(paths.services.glob("*.json")))
    return tuple(service for service in found if service is not None)


def live_service(path: Path) -> ServiceFile | None:
    """Return the service of an announce file; None unless it is alive on this machine, outside of other containers.

    In a copy of the run's directory none is: its processes serve the original.
    """
    try:
        said, written_at_s, place = from_json(path.read_bytes()), path.stat().st_mtime, announce_place(path)
        pid = int(said["pid"])
        if said.get("pid_namespace", pid_namespace()) != pid_namespace():
            return None  # of another container, where the number belongs to another process
        if said.get("place", place) != place:
            return None  # in a copy of the run's directory: the process serves the original
        process = psutil.Process(pid)
        started_at_s, ticks = process.create_time(), said.get("start_ticks")
        # Where the file has no ticks the clock decides, which may have been set meanwhile.
        is_other = started_at_s > written_at_s + _CLOCK_SLACK_S if ticks is None else ticks != start_ticks(pid)
        if process.status() == psutil.STATUS_ZOMBIE or is_other:
            return None  # the number belongs to another process now
        return ServiceFile(path.stem, process.pid, str(said["address"]), int(said["metrics_port"]), started_at_s)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, psutil.Error):
        return None


def _rated(champion: Champion | None, rungs: Sequence[Rung]) -> Rung | None:
    models = {int(rung.name.removeprefix("model:")): rung for rung in rungs if rung.name.startswith("model:") and rung.anchored}
    if champion is None or not models:
        return None
    return models.get(champion.version, models[max(models)])


def latest_numbers(paths: RunPaths) -> dict[str, float | int | None]:
    """Return the numbers of the last whole line of a run's history by name; none without a history, or of a damaged line."""
    try:
        with (paths.metrics / HISTORY_FILE).open("rb") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, size_bytes - _TAIL_BYTES))
            lines = whole_lines(file.read()).splitlines()
        found = from_json(lines[-1]) if lines else {}
        return {name: _number(value) for name, value in found.items() if not isinstance(value, str)}
    except (OSError, ValueError, AttributeError):
        return {}


def _number(value: object) -> float | int | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) <= sys.float_info.max else None  # neither NaN nor a number that JSON readers cannot hold
