"""Cost file: measured unit costs, written by `zerofleet bench … --save` and read by `zerofleet plan`.

A plan multiplies costs with the settings of their preset, so a file is refused once the preset has other ones. The shipped
example states those with which it was measured (`settings`), and its plan has them in place of the preset's.
"""

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

from games.core import Game
from games.positions import changed_parameters, parameters_text
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.experiment import Experiment
from zerofleet.search import SearchBlock
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
    """Machine and date of the measurement, and settings that replace the preset's, for display."""
    simulations_per_core: float
    """Simulations per second of the search alone."""
    evaluations_per_simulation: float
    """Below 1: some simulations end in a finished game."""
    memory_per_worker: float
    """Bytes of a worker's blocks by the preset's search: trees, games in progress and evaluation caches."""
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
    known = _read(path)["measured"] if path.exists() else {}
    known[kind] = {"date": datetime.now(UTC).date().isoformat(), "machine": _machine(), "figures": dict(figures)}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_publish(path, json.dumps({"format": FORMAT, "measured": known}, indent=2) + "\n")


def read_costs(path: Path | None, *, game: Game) -> tuple[Costs, Preset]:
    """Return the costs of a file, or those of the shipped example if `path` is None, and the preset they were measured with.

    A file is parsed once for each version on disk. Raises `ConfigurationError` if the file is damaged, lacks a measurement, has
    one that is not a number above 0, is for a game other than `game`, or was measured with other settings than the preset's.
    """
    example = Path(str(resources.files(__package__) / EXAMPLE))
    chosen, name = path or example, model_name(game)
    content = _content(chosen)
    known = content["measured"]
    missing = [f"zerofleet bench {kind} --game … --save {chosen}" for kind in _KINDS if kind not in known]
    if missing:
        raise ConfigurationError(f"{chosen} lacks measurements; run {' and '.join(missing)}")
    try:
        found: dict[str, Any] = {kind: known[kind]["figures"] for kind in _KINDS}
        others = {kind: figures["game"] for kind, figures in found.items() if figures["game"] != name}
        if others:
            told = ", ".join(f"{kind} of {other}" for kind, other in others.items())
            raise ConfigurationError(f"{chosen} has costs of {told}, wanted {name}; measure it with zerofleet bench … --save")
        if found["serve"]["preset"] != found["train"]["preset"]:
            presets = f"serve of preset {found['serve']['preset']}, train of preset {found['train']['preset']}"
            raise ConfigurationError(f"{chosen} has {presets}; measure both with the same --preset")
        wrong = [f"{kind}.{key} = {found[kind][key]!r}" for kind, key in _NUMBERS if not _is_above_0(found[kind][key])]
        counted = {key: found["serve"].get(key, 0.0) for key in _COUNTED}
        wrong += [f"serve.{key} = {each!r}" for key, each in counted.items() if each != 0.0 and not _is_above_0(each)]
        if wrong:
            told = f"{chosen} has {', '.join(wrong)}, wanted numbers above 0"
            raise ConfigurationError(f"{told}; measure again with zerofleet bench … --save")
        settings, source = content.get("settings", {}), f"{known['serve']['machine']}, {known['serve']['date']}"
        if settings:
            told = ", ".join(f"{key}={value}" for key, value in settings.items())
            source += f"; settings in place of the preset's: {told}"
        preset = Experiment(game.spec().name, found["serve"]["preset"], None, parameters_text(game), settings).build_preset()
        _require_settings(chosen, found, game, preset)
        return _costs(found, source, _worker_bytes(game, preset)), preset
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigurationError(
            f"{chosen} cannot be used ({error!r}); measure it again with zerofleet bench … --save"
        ) from error


def _require_settings(path: Path, found: Mapping[str, Mapping[str, Any]], game: Game, preset: Preset) -> None:
    """Raise `ConfigurationError` if a figure was measured with other settings than those of the preset.

    A setting that a file of an earlier version does not state is not compared.
    """
    network, selfplay = preset.network, preset.selfplay
    wanted: dict[Kind, dict[str, Any]] = {
        "serve": {
            "network": f"{network.blocks}x{network.channels}",
            "simulations": preset.search.simulations,
            "lanes": selfplay.lanes,
            "slots": selfplay.slots,
        },
        "train": {"blocks": network.blocks, "channels": network.channels, "batch_size": preset.train.batch_size},
    }
    differ = {
        f"{kind}.{name}": (kind, found[kind][name], value)
        for kind, values in wanted.items()
        for name, value in values.items()
        if found[kind].get(name, value) != value
    }
    if differ:
        got = ", ".join(f"{name} = {measured}" for name, (_, measured, _) in differ.items())
        want = ", ".join(str(value) for _, _, value in differ.values())
        options = " ".join(("--game", game.spec().name, *set_options(changed_parameters(game)), "--preset", preset.name))
        kinds = dict.fromkeys(kind for kind, _, _ in differ.values())
        commands = " and ".join(f"zerofleet bench {kind} {options} --save {path}" for kind in kinds)
        raise ConfigurationError(
            f"{path} was measured with {got}, the preset {preset.name} has {want}; measure again with {commands}"
        )


def _worker_bytes(game: Game, preset: Preset) -> int:
    """Return the bytes of a worker's blocks, from two small ones: a game adds the same to each, the evaluation cache is one."""
    one, two = (SearchBlock(game, preset.search, slots=slots).nbytes for slots in (1, 2))
    return preset.selfplay.lanes * (one + (preset.selfplay.slots - 1) * (two - one))


def _costs(found: Mapping[str, Mapping[str, Any]], source: str, memory_per_worker: int) -> Costs:
    search, serve, train = found["search"], found["serve"], found["train"]
    return Costs(
        game=serve["game"],
        preset=serve["preset"],
        source=source,
        simulations_per_core=float(search["simulations_per_cpu_second"]),
        evaluations_per_simulation=search["positions_per_second"] / search["simulations_per_second_per_core"],
        memory_per_worker=float(memory_per_worker),
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


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a file, from memory while the file is the same; do not change it."""
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
        return {**content, "measured": dict(content["measured"])}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}); write it with zerofleet bench … --save") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} is not a cost file; write one with zerofleet bench … --save") from error


def _machine() -> str:
    """Return processor, number of cores and operating system, as text."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
