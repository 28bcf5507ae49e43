"""Writer of experiment files: every setting with its description, range and, if it differs, the preset's value."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from games.core import parameters_in, parameters_of
from zerofleet.presets import Preset, preset
from zerofleet.presets.descriptions import description
from zerofleet.presets.experiment import PARTS, SERVICES, Experiment, part_of, setting_text
from zerofleet.presets.secret_settings import is_secret

__all__ = ["commented"]

_WIDTH = 118
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# Experiment file of Zerofleet: the complete configuration of a run. `zerofleet run --config FILE` runs it.
# A missing line takes the preset's value; `--set NAME=VALUE` on the command line overrides this file.
"""


def commented(experiment: Experiment) -> str:
    """Return the text of an experiment file with every setting of the preset's parts, and the settings of services.

    Of secret settings only the names are written. Raises `ConfigurationError` and `GameError` as `Experiment` does.
    """
    blocks = [_HEAD, *_decided(experiment), *_parameters(experiment)]
    base, chosen = preset(experiment.build_game(), experiment.preset), experiment.build_preset()
    own = [chosen.train.learner] if chosen.own_learner is not None else []
    for part in [*PARTS, *own]:
        earlier, now = part_of(base, part), part_of(chosen, part)
        about = type(now).__doc__ if part in own else description(Preset, part)
        blocks.append(f"\n{_comment(about or '')}[{part}]\n")
        for key in type(now).model_fields:
            before, value = getattr(earlier, key), getattr(now, key)
            mark = f"  # preset: {_toml(before)}" if value != before else ""
            blocks.append(f"{_comment(_about(type(now), key))}{key} = {_toml(value)}{mark}\n")
    return "".join([*blocks, *_services(experiment.settings)])


def _decided(experiment: Experiment) -> Iterator[str]:
    yield f"\n# Name of the game.\ngame = {_toml(experiment.game)}\n"
    yield f"# Machine size; its preset supplies missing settings.\npreset = {_toml(experiment.preset)}\n"
    seed = "# seed = 0" if experiment.seed is None else f"seed = {experiment.seed}"
    yield f"# Seed of all random choices, 0 to 2^63 - 1; without it each new run draws its own.\n{seed}\n"
    if experiment.devices:
        yield "# Devices of inference, with one server each.\n"
        yield f"devices = {_toml(list(experiment.devices))}\n"
    given = {name for name, text in experiment.settings.items() if name.partition(".")[0] in SERVICES and is_secret(name, text)}
    if secrets := sorted(given | {*experiment.secrets}):
        yield "# Secret settings, whose values are not stored: given with --set or in the environment.\n"
        yield f"secrets = {_toml(secrets)}\n"


def _parameters(experiment: Experiment) -> Iterator[str]:
    defaults = parameters_of(experiment.game)
    yield "\n# Parameters of the game.\n[parameters]\n"
    for name, value in parameters_in(experiment.build_game()).items():
        yield f"{name} = {_toml(value)}" + ("" if value == defaults[name] else f"  # default: {_toml(defaults[name])}") + "\n"


def _services(settings: Mapping[str, str]) -> Iterator[str]:
    for service in SERVICES:
        own = {name.partition(".")[2]: text for name, text in settings.items() if name.startswith(f"{service}.")}
        if own:
            yield f"\n# Settings of one service; `python -m {service} --help` lists them.\n[{service}]\n"
        for name, text in own.items():
            if is_secret(name, text):
                yield f"# {name}: a secret, not stored here\n"
            else:
                yield f"{'.'.join(map(_key, name.split('.')))} = {_from_text(text)}\n"


def _about(settings: type[BaseModel], name: str) -> str:
    """Return the description and range of a setting."""
    info, text = settings.model_fields[name], description(settings, name)
    bounds = [
        f"{word} {getattr(bound, name):,}".removesuffix(".0")
        for bound in info.metadata
        for name, word in _BOUNDS.items()
        if hasattr(bound, name)
    ]
    limits = ", ".join(bounds or map(_toml, _choices(info.annotation)))
    return f"{text} ({limits})" if limits else text


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the choices of a setting, or of each entry of a list."""
    for argument in typing.get_args(annotation):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _choices(argument)


def _comment(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), _WIDTH, initial_indent="# ", subsequent_indent="# ")
    return "".join(f"{line}\n" for line in lines)


def _key(word: str) -> str:
    return word if _BARE.fullmatch(word) else _toml(word)


def _toml(value: Any) -> str:
    """Return a value as TOML: JSON with grouped digits of integers and one more escaped character."""
    if type(value) is int:
        return f"{value:_}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _from_text(text: str) -> str:
    """Return the TOML of a setting given as text: bare if equivalent, else quoted."""
    try:
        same = setting_text(tomllib.loads(f"value = {text}")["value"]) == text
    except (TypeError, ValueError):
        same = False
    return text if same else _toml(text)
