"""Learners by name: those of this package, and those that installed packages offer (docs/own_learner.md).

A built-in learner is a class in a package of `trainer/learners`, a declaration in `LEARNERS`, and a part of the preset with its
settings: a module beside the other parts, and a field in `Preset` and `TrainerSettings`. A learner of another package is an
entry point of the group `zerofleet.learners`: its name, and the `LearnerDeclaration`. It is imported on first use, so a broken
one does not affect the others.
"""

from __future__ import annotations

import inspect
import re
from importlib.metadata import EntryPoint, entry_points

from pydantic import BaseModel, ValidationError

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.built_in import LEARNERS
from zerofleet.presets.learners.declaration import LearnerDeclaration

__all__ = [
    "ENTRY_POINT_GROUP",
    "LEARNERS",
    "LearnerDeclaration",
    "available",
    "declared",
    "offered",
    "own_settings",
    "settings_of",
]

ENTRY_POINT_GROUP = "zerofleet.learners"
"""Entry point group in which an installed package offers a learner: its name, and the object that declares it."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TAKEN = frozenset({"game", "seed", "preset", "parameters", "inference_server", "gatekeeper", "trainer", "selfplay_worker"})


def available() -> tuple[str, ...]:
    """Return the names of all learners, built-in ones first."""
    return (*LEARNERS, *sorted(offered()))


def offered() -> dict[str, EntryPoint]:
    """Return the learners that installed packages offer, by name; none of them is imported."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in LEARNERS}


def declared(name: str) -> LearnerDeclaration:
    """Return the declaration of a learner.

    Raises `ConfigurationError` for an unknown one, naming those that exist, and for a broken one, naming its package.
    """
    if name in LEARNERS:
        return LEARNERS[name]
    point = offered().get(name)
    if point is None:
        raise ConfigurationError(
            f"train.learner={name}: no such learner; there are {', '.join(available())}. Packages add others by the entry "
            f"point group {ENTRY_POINT_GROUP}"
        )
    try:
        found = point.load()
    except Exception as error:
        raise _broken(point, f"cannot be loaded: {error!r}") from error
    if not isinstance(found, LearnerDeclaration):
        raise _broken(point, f"is {type(found).__name__}, no LearnerDeclaration")
    if found.settings is not None:
        _check_settings(point, found.settings)
    try:
        inspect.signature(found.require).bind(None, None)
    except TypeError as error:
        raise _broken(point, f"has a function `require` for other arguments than (preset, settings): {error}") from error
    return found


def own_settings(part: str) -> type[BaseModel] | None:
    """Return the settings class of the learner `part` of an installed package; None without such a learner, or its settings.

    Raises `ConfigurationError` for a broken one.
    """
    return declared(part).settings if part in offered() else None


def settings_of(preset: Preset) -> BaseModel | None:
    """Return the settings of a preset's learner; None for one without settings of its own."""
    name = preset.train.learner
    if name not in LEARNERS:
        return preset.own_learner
    return getattr(preset, name) if LEARNERS[name].settings is not None else None


def _check_settings(point: EntryPoint, settings: type[BaseModel]) -> None:
    """Raise `ConfigurationError` unless the settings can be a part of a preset: names, and a default for each."""
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        raise _broken(point, f"has the settings {settings!r}; want a class of pydantic's BaseModel")
    if not _NAME.fullmatch(point.name) or point.name in _TAKEN | Preset.model_fields.keys():
        raise _broken(
            point, "has settings, and no table can have its name: want lower-case words with underscores, and no existing part"
        )
    if wrong := [name for name in settings.model_fields if not _NAME.fullmatch(name)]:
        raise _broken(point, f"has settings with the names {', '.join(wrong)}; want lower-case words with single underscores")
    try:
        settings()
    except ValidationError as error:
        raise _broken(point, f"has settings without valid defaults: {error.errors()[0]['msg']}") from error


def _broken(point: EntryPoint, fault: str) -> ConfigurationError:
    package = point.dist.name if point.dist else "an unnamed package"
    return ConfigurationError(
        f"train.learner={point.name}: the package {package} offers it as {point.value!r}, which {fault}; correct or remove the "
        "package"
    )
