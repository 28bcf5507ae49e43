"""Values that a stage takes from its preset, beside the settings of its own.

They are kept with the stage: a later version may have other values in the preset of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from games.core import make
from zerofleet.presets import preset
from zerofleet.presets.experiment import PARTS
from zerofleet.presets.learners import LEARNERS, declared
from zerofleet.presets.theses.stages import AlphaZeroStage, LearnerStage, Stage
from zerofleet.presets.trial import ONE_PROCESS, PARTS_OF_TRIAL

__all__ = ["changed_value", "preset_values"]

_OF_ACTIONS = ("deep_q", "combined")
"""Parts that only learners of the values of moves read."""


def preset_values(stage: Stage) -> dict[str, Any]:
    """Return the values that decide a result, by dotted name and as in JSON; none for a stage without a preset."""
    if not isinstance(stage, AlphaZeroStage | LearnerStage):
        return {}
    chosen = preset(make(stage.game, **stage.parameters), stage.preset)
    learner = stage.settings.get("train.learner", chosen.train.learner)
    parts = PARTS_OF_TRIAL if isinstance(stage, AlphaZeroStage) else _parts_of(learner)
    values = {f"{part}.{key}": value for part in parts for key, value in getattr(chosen, part).model_dump(mode="json").items()}
    return {name: value for name, value in values.items() if name not in ONE_PROCESS and name not in stage.settings}


def _parts_of(learner: str) -> list[str]:
    """Return the parts of a preset that a learner reads in one process."""
    own = _OF_ACTIONS if declared(learner).of_actions else (learner,)
    unread = {"search", *ONE_PROCESS, *LEARNERS, *_OF_ACTIONS} - set(own)
    return [part for part in PARTS if part not in unread]


def changed_value(stage: Stage, kept: Mapping[str, Any]) -> str:
    """Return the first value that differs from a kept one, in words; empty if there is none, or none was kept.

    A setting that the kept values lack is a later one, and its default is the behaviour without it.
    """
    now = preset_values(stage) if kept else {}
    for name in {**kept, **now}:
        before = kept[name] if name in kept else _default(name)
        if before != now.get(name):
            return f"{name} of its preset was {before} and is {now.get(name)}"
    return ""


def _default(name: str) -> Any:
    part, _, key = name.partition(".")
    return PARTS[part].model_construct().model_dump(mode="json").get(key)
