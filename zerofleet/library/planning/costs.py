"""Cost file: measured unit costs, written by `zerofleet bench … --save` and read by `zerofleet plan`."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from zerofleet.errors import ConfigurationError
from zerofleet.storage.files import atomic_publish

__all__ = ["Costs", "Kind", "read_costs", "save_figures"]

FORMAT = 1
EXAMPLE = "example_costs.json"

Kind = Literal["search", "serve", "train"]

_KINDS: tuple[Kind, ...] = ("search", "serve", "train")
_NUMBERS: tuple[tuple[Kind, str], ...] = (
    ("search", "simulations_per_cpu_second"),
    ("search", "positions_per_second"),
    ("search", "simulations_per_second_per_core"),
    ("search", "bytes_per_game"),
    ("serve", "served_positions_per_second"),
    ("serve", "worker_cores"),
    ("serve", "bytes_asked_per_position"),
    ("serve", "bytes_answered_per_position"),
    ("train", "samples_per_second"),
    ("train", "batch_size"),
    ("train", "games_validated_per_second"),
    ("train", "plies_per_game"),
    ("train", "bytes_per_record"),
    ("train", "disk_bytes_per_game"),
    ("train", "bytes_per_sample"),
)
_COUNTED = ("positions_per_game", "positions_per_move")
"""Figures of `serve` that files of earlier versions lack, and that are 0 where games took too long to be counted."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Unit costs of each part, for one game and preset."""

    game: str
    preset: str
    source: str
    """Machine and date of the measurement, for display."""
    simulations_per_core: float
    """Simulations per second of the search alone."""
    evaluations_per_simulation: float
    """Below 1: some simulations end in a finished game."""
    memory_per_game: float
    """Resident bytes of a worker for each game it plays."""
    evaluations_per_device: float
    """Evaluations per second of an inference server, gRPC and batching included."""
    evaluations_per_worker_core: float
    """Evaluations per second requested by a worker on one core: search, request, reply, and the games around them."""
    evaluations_per_game: float
    """Evaluations of a worker for each of its games: of an untrained network, unless those of a run replace them; 0 where the
    file has none."""
    evaluations_per_move: float
    """The same for each searched move; it hardly depends on the network, while games of a trained one are longer."""
    bytes_asked: float
    """Size of the request tensors of an evaluation."""
    bytes_answered: float
    """Size of the reply tensors of an evaluation."""
    samples_per_second: float
    """Training throughput of a trainer."""
    batch_size: int
    games_taken_per_second: float
    """Intake of a trainer: games decoded, validated and encoded on one thread."""
    plies_per_game: float
    bytes_per_record: float
    disk_bytes_per_game: float
    bytes_per_sample: float
    """Memory of a sample in the replay window."""
    gate_share: float = 0.0
    """Share of all evaluations that matches, measurements of candidates and the ladder take from the same servers."""


def save_figures(path: Path, kind: Kind, figures: Mapping[str, Any]) -> None:
    """Write figures with machine and date into a cost file; figures of other benchmarks are kept.

    Raises `ConfigurationError` if the file is not a cost file; `OSError` if it cannot be written, and leaves it unchanged.
    """
    known = _read(path) if path.exists() else {}
    known[kind] = {"date": datetime.now(UTC).date().isoformat(), "machine": _machine(), "figures": dict(figures)}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_publish(path, json.dumps({"format": FORMAT, "measured": known}, indent=2) + "\n")


def read_costs(path: Path | None, *, game: str) -> Costs:
    """Return the costs of a file, or those of the shipped example if `path` is None.

    A file is parsed once for each version on disk. Raises `ConfigurationError` if the file is damaged, lacks a measurement, has
    one that is not a number above 0, or is for a game other than `game`.
    """
    example = Path(str(resources.files(__package__) / EXAMPLE))
    chosen = path or example
    known = _measured(chosen)
    missing = [f"zerofleet bench {kind} --game … --save {chosen}" for kind in _KINDS if kind not in known]
    if missing:
        raise ConfigurationError(f"{chosen} lacks measurements; run {' and '.join(missing)}")
    try:
        found: dict[str, Any] = {kind: known[kind]["figures"] for kind in _KINDS}
        others = {kind: figures["game"] for kind, figures in found.items() if figures["game"] != game}
        if others:
            told = ", ".join(f"{kind} of {name}" for kind, name in others.items())
            raise ConfigurationError(f"{chosen} has costs of {told}, wanted {game}; measure it with zerofleet bench … --save")
        if found["serve"]["preset"] != found["train"]["preset"]:
            presets = f"serve of preset {found['serve']['preset']}, train of preset {found['train']['preset']}"
            raise ConfigurationError(f"{chosen} has {presets}; measure both with the same --preset")
        wrong = [f"{kind}.{name} = {found[kind][name]!r}" for kind, name in _NUMBERS if not _is_above_0(found[kind][name])]
        counted = {name: found["serve"].get(name, 0.0) for name in _COUNTED}
        wrong += [f"serve.{name} = {each!r}" for name, each in counted.items() if each != 0.0 and not _is_above_0(each)]
        if wrong:
            told = f"{chosen} has {', '.join(wrong)}, wanted numbers above 0"
            raise ConfigurationError(f"{told}; measure again with zerofleet bench … --save")
        return _costs(found, f"{known['serve']['machine']}, {known['serve']['date']}")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigurationError(
            f"{chosen} cannot be used ({error!r}); measure it again with zerofleet bench … --save"
        ) from error


def _costs(found: Mapping[str, Mapping[str, Any]], source: str) -> Costs:
    search, serve, train = found["search"], found["serve"], found["train"]
    return Costs(
        game=serve["game"],
        preset=serve["preset"],
        source=source,
        simulations_per_core=float(search["simulations_per_cpu_second"]),
        evaluations_per_simulation=search["positions_per_second"] / search["simulations_per_second_per_core"],
        memory_per_game=float(search["bytes_per_game"]),
        evaluations_per_device=float(serve["served_positions_per_second"]),
        evaluations_per_worker_core=serve["served_positions_per_second"] / serve["worker_cores"],
        evaluations_per_game=float(serve.get("positions_per_game", 0.0)),
        evaluations_per_move=float(serve.get("positions_per_move", 0.0)),
        bytes_asked=float(serve["bytes_asked_per_position"]),
        bytes_answered=float(serve["bytes_answered_per_position"]),
        samples_per_second=float(train["samples_per_second"]),
        batch_size=int(train["batch_size"]),
        games_taken_per_second=float(train["games_validated_per_second"]),
        plies_per_game=float(train["plies_per_game"]),
        bytes_per_record=float(train["bytes_per_record"]),
        disk_bytes_per_game=float(train["disk_bytes_per_game"]),
        bytes_per_sample=float(train["bytes_per_sample"]),
    )


def _is_above_0(value: Any) -> bool:
    return 0.0 < float(value) < math.inf


def _measured(path: Path) -> dict[str, Any]:
    """Return the measurements of a file, from memory while the file is the same; do not change them."""
    try:
        now = path.stat()
    except OSError:
        return _read(path)  # with the reason
    return _read_once(path, (now.st_ino, now.st_mtime_ns, now.st_size))


@functools.lru_cache(maxsize=8)
def _read_once(path: Path, version: tuple[int, int, int]) -> dict[str, Any]:
    return _read(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = from_json(path.read_bytes())
        if content["format"] != FORMAT:
            raise ConfigurationError(f"{path} has format {content['format']}, this version reads {FORMAT}; measure again")
        measured: dict[str, Any] = dict(content["measured"])
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}); write it with zerofleet bench … --save") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} is not a cost file; write one with zerofleet bench … --save") from error
    return measured


def _machine() -> str:
    """Return processor, number of cores and operating system, as text."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
