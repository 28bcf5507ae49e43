"""Declaration of a learner: the class that the trainer runs, its settings, and its requirements of the preset.

A declaration is light: the supervisor, which checks a run before it starts, reads it without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from zerofleet.presets import Preset

__all__ = ["LearnerDeclaration", "nothing"]


def nothing(preset: Preset, settings: Any) -> None:
    """Require nothing of the preset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerDeclaration:
    """Learner by its parts."""

    implementation: str
    """Class with the members of `trainer.learners.contract.Learning`, as `module:Class`; only the trainer imports it."""
    settings: type[BaseModel] | None = None
    """Settings: a frozen pydantic model with lower-case names and a default for each. They are the part of the preset, and the
    table of an experiment file, with the name of the learner. None: the learner has none of its own."""
    require: Callable[[Preset, Any], None] = nothing
    """Check of the preset, called with it and the learner's settings (None without `settings`); raises `ConfigurationError` for
    settings of self-play, gate or others that contradict the learner."""
    of_actions: bool = False
    """Whether it learns the values of the moves of a pool, for which it needs `selfplay.mode=action_values` and a network
    of action values."""
    in_lockstep: bool = False
    """Whether every game gives a version if the setting `publish_every_games` is 1, also a game without anything to learn, as
    `selfplay.sync` needs."""
