"""Experiment: the complete configuration of a run, as stored in an experiment file (TOML).

    game = "connect_four"
    preset = "laptop"           # supplies settings that the file omits
    seed = 7                    # drawn when the run is created if missing
    devices = ["cuda:0", "cuda:1"]  # an inference server for each; missing: one server, by its settings
    secrets = ["trainer.token"] # names of secret settings, which the command or the environment gives
    [parameters]                # of the game
    rows = 6
    [search]                    # a part of the preset
    simulations = 200
    [trainer]                   # settings of one service, validated by that service
    log_level = "debug"

A file is validated completely when it is read: unknown keys, wrong types and values out of range are rejected, with file
and key.
"""

from __future__ import annotations

import difflib
import json
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from games.core import Game, make, parameters_of
from games.errors import GameError
from zerofleet.contracts.plain_files import read_plain
from zerofleet.errors import ConfigurationError
from zerofleet.presets import PRESETS, Preset, preset
from zerofleet.presets.agreement import require_agreement, require_control_games, require_openings
from zerofleet.presets.devices import check_devices
from zerofleet.presets.learners import own_settings
from zerofleet.presets.lists import is_list, parse_list
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import check_seed, read_header

__all__ = [
    "PARTS",
    "SERVICES",
    "Experiment",
    "kept_experiment",
    "nearest",
    "part_of",
    "read_experiment",
    "setting_text",
    "settings_in_environment",
]

SERVICES = ("inference_server", "gatekeeper", "trainer", "selfplay_worker")
"""Services of a run in the order of starting; they are drained in reverse order."""

PARTS: Mapping[str, type[BaseModel]] = {
    name: typing.cast("type[BaseModel]", part.annotation)
    for name, part in Preset.model_fields.items()
    if name not in {"name", "own_learner"}
}
"""Parts of a preset by name; a learner of another package adds one of its own (`part_of`)."""

_KINDS: Mapping[str, type] = {
    "game": str,
    "preset": str,
    "seed": int,
    "devices": list,
    "secrets": list,
    **dict.fromkeys(("parameters", *PARTS, *SERVICES), dict),
}
_WORDS = {str: "a string", int: "an integer", list: "an array", dict: "a table", bool: "a boolean", float: "a number"}


@dataclass(frozen=True, slots=True)
class Experiment:
    """Configuration of a run."""

    game: str
    preset: str = "laptop"
    seed: int | None = None
    """None: drawn when the run is created."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Game parameters, as text."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings by dotted name, as text: a part of the preset (`search.simulations`) or a service (`trainer.log_level`)."""
    secrets: tuple[str, ...] = ()
    """Names of secret settings whose values are not stored: of a service (`trainer.token`), or variables of the environment."""
    devices: tuple[str, ...] = ()
    """Devices of inference, with one server each; empty: one server, with the device of its settings."""

    def build_game(self) -> Game:
        """Return the game; raises `GameError`."""
        return make(self.game, **self.parameters)

    def build_preset(self) -> Preset:
        """Return the preset with the settings of its parts.

        Raises `ConfigurationError` naming the wrong one, or those that contradict each other.
        """
        game = self.build_game()
        chosen = preset(game, self.preset)
        changes: dict[str, dict[str, str]] = {}
        for name, value in self.settings.items():
            part, _, key = name.partition(".")
            if part not in SERVICES:  # a service reads and checks its own
                model = PARTS.get(part) or own_settings(part)
                if model is None or key not in model.model_fields:
                    raise ConfigurationError(f"--set {name}={value}: no such setting; {nearest(name)}")
                changes.setdefault(part, {})[key] = value
        changed = {part: _changed(part, part_of(chosen, part), these) for part, these in changes.items()}
        found = chosen.model_copy(update={part: these for part, these in changed.items() if part in PARTS})
        if (own := own_settings(found.train.learner)) is not None:
            found = found.model_copy(update={"own_learner": changed.get(found.train.learner, own())})
        require_agreement(found)
        require_openings(found.gate, game)
        require_control_games(game, found.search, found.selfplay)
        return found


def part_of(chosen: Preset, name: str) -> BaseModel:
    """Return a part of a preset by name: one of `PARTS`, or the settings of a learner of another package.

    The latter are the preset's if it has that learner, and otherwise their defaults. Raises `ConfigurationError` for an unknown
    part.
    """
    if name in PARTS:
        part: BaseModel = getattr(chosen, name)
        return part
    if (own := own_settings(name)) is None:
        raise ConfigurationError(f"{name}: no such part; {nearest(name)}")
    if chosen.own_learner is not None and chosen.train.learner == name:
        return chosen.own_learner
    return own()


def read_experiment(path: Path, *, read: Callable[[Path], bytes] = Path.read_bytes) -> Experiment:
    """Return the experiment in a file, which a person names and may be a pipe.

    Raises `ConfigurationError` for an unreadable file, an unknown key or a value out of range.
    """
    try:
        tree = tomllib.loads(read(path).decode())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}; --config takes an experiment file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}; `zerofleet run --save-config` writes a template") from error
    try:
        return _experiment(tree)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def kept_experiment(root: Path) -> Experiment | None:
    """Return the experiment of the run in a directory; None where there is no run.

    A run without the file, of an earlier version or ended while it began, has game, parameters, preset and seed of its header.
    Raises `ConfigurationError` as `read_experiment`, and `RunDirectoryError` for an unreadable header.
    """
    paths = RunPaths(root)
    if paths.experiment.exists():
        return read_experiment(paths.experiment, read=read_plain)
    if not paths.header.exists():
        return None
    header = read_header(root)
    return Experiment(header.game, header.preset, header.seed, header.parameters)


def settings_in_environment(variables: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings of the preset's parts among environment variables, by dotted name.

    `ZEROFLEET_SEARCH__SIMULATIONS` is `search.simulations` with the prefix `ZEROFLEET_`. Unknown names are for the services.
    """
    found = {}
    for variable, value in variables.items():
        part, _, key = variable.lower().removeprefix(prefix.lower()).partition("__")
        if variable.lower().startswith(prefix.lower()) and key:
            model = PARTS.get(part) or own_settings(part)
            if model is not None and key in model.model_fields:
                found[f"{part}.{key}"] = value
    return found


def setting_text(value: Any) -> str:
    """Return a setting as text, as in the environment and `--set`: lists as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def nearest(name: str) -> str:
    """Return a hint with the known name closest to an unknown one; the same key in another part comes first."""
    own = own_settings(name.partition(".")[0])
    parts = PARTS if own is None else {name.partition(".")[0]: own, **PARTS}
    settings = {f"{part}.{key}": key for part, model in parts.items() for key in model.model_fields}
    near = [full for full, key in settings.items() if key == name.rpartition(".")[2]]
    near = near or difflib.get_close_matches(name, [*_KINDS, *settings], n=1)
    return f"did you mean {' or '.join(near)}?" if near else f"settings begin with {', '.join(sorted(parts))}"


def _experiment(tree: Mapping[str, Any]) -> Experiment:
    own = [name for name in tree if name not in _KINDS and own_settings(name) is not None]
    for name, value in tree.items():
        if name not in _KINDS and name not in own:
            raise ConfigurationError(f"{name}: no such key; {nearest(name)}")
        _require_kind(name, value, _KINDS.get(name, dict))
    if "game" not in tree:
        raise ConfigurationError('game is missing; add a line such as game = "connect_four"')
    parameters = _parameters(tree["game"], tree.get("parameters", {}))
    chosen = tree.get("preset", "laptop")
    if chosen not in PRESETS:
        raise ConfigurationError(f"preset = {chosen!r} does not exist; choose one of {', '.join(PRESETS)}")
    if "seed" in tree:
        check_seed(tree["seed"])
    secrets, devices = tree.get("secrets", []), tree.get("devices", [])
    for key, entries in (("secrets", secrets), ("devices", devices)):
        for entry in entries:
            _require_kind(f"{key}: entry", entry, str)
    check_devices(devices)
    base = preset(make(tree["game"], **parameters), chosen)
    settings: dict[str, str] = {}
    for part in [*(PARTS.keys() & tree.keys()), *own]:
        settings |= _settings_of_part(part, part_of(base, part), tree[part])
    for service in SERVICES:
        settings |= {name: setting_text(value) for name, value in _leaves(tree.get(service, {}), service)}
    return Experiment(tree["game"], chosen, tree.get("seed"), parameters, settings, tuple(secrets), tuple(devices))


def _parameters(game: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that differ from the game's defaults, as text."""
    try:
        defaults = parameters_of(game)
    except GameError as error:
        raise ConfigurationError(f"game: {error}") from error
    for name, value in given.items():
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, n=1) or [", ".join(defaults) or "no parameter: it has none"]
            raise ConfigurationError(f"parameters.{name}: {game} has no such parameter; did you mean {near[0]}?")
        _require_kind(f"parameters.{name}", value, type(defaults[name]))
    try:
        make(game, **given)
    except GameError as error:
        raise ConfigurationError(f"parameters: {error}") from error
    return {name: str(value) for name, value in given.items() if value != defaults[name]}


def _settings_of_part(part: str, base: BaseModel, given: Mapping[str, Any]) -> dict[str, str]:
    """Return a file's settings of a part of the preset, validated strictly: no string for a number."""
    for key in given:
        if key not in type(base).model_fields:
            raise ConfigurationError(f"{part}.{key}: no such setting; {nearest(f'{part}.{key}')}")
    try:
        type(base).model_validate_json(json.dumps({**base.model_dump(), **given}, default=str), strict=True)
    except ValidationError as error:
        key, fault = _first_fault(error)
        if key not in given:
            raise ConfigurationError(f"{part}: {fault}") from error
        raise ConfigurationError(
            f"{part}.{key}: {fault}, got {_shown(given[key])}; correct it, or remove the line to use the preset's "
            f"{setting_text(getattr(base, key))}"
        ) from error
    return {f"{part}.{key}": setting_text(value) for key, value in given.items()}


def _changed(part: str, base: BaseModel, changes: Mapping[str, str]) -> BaseModel:
    """Return a part of the preset with some settings given as text."""
    values = base.model_dump()
    for key, text in changes.items():
        try:
            values[key] = parse_list(text) if is_list(type(base).model_fields[key].annotation) else text
        except ValueError as error:
            raise ConfigurationError(f"--set {part}.{key}: {error}") from error
    try:
        return type(base).model_validate(values)
    except ValidationError as error:
        key, fault = _first_fault(error)
        named = [key] if key in changes else changes
        given = " ".join(f"--set {part}.{name}={changes[name]}" for name in named)
        raise ConfigurationError(f"{given}: {fault}") from error


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Return the setting (empty: several together) and the message of the first error."""
    fault = error.errors()[0]
    return str(fault["loc"][0]) if fault["loc"] else "", fault["msg"].removeprefix("Value error, ")


def _require_kind(name: str, value: Any, kind: type) -> None:
    if type(value) is not kind and not (kind is float and type(value) is int):
        got, wanted = (_WORDS.get(one, one.__name__) for one in (type(value), kind))
        raise ConfigurationError(f"{name} = {_shown(value)} is {got}; want {wanted}")


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and values of a table, nested tables flattened; raises `ConfigurationError` for an empty key."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, below in value.items():
        if not key:
            raise ConfigurationError(f'{name}: a key is ""; want the name of a setting, such as trainer.log_level')
        yield from _leaves(below, f"{name}.{key}")
