"""Declaration of the learner `alphazero`; its settings are the parts `train` and `network`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration

__all__ = ["LEARNER"]


def _require(preset: Preset, settings: None) -> None:
    if preset.selfplay.mode == "afterstates":
        raise ConfigurationError(
            "train.learner=alphazero learns from searched positions, and selfplay.mode=afterstates searches none; set "
            "selfplay.mode=search, or train.learner=td_lambda"
        )


LEARNER = LearnerDeclaration(implementation="trainer.learners.alphazero:AlphaZero", require=_require)
