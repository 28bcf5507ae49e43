"""Declaration of the learner `outcome`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.presets.learners.requirements import require_moves_of_all, require_search_of_matches
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["LEARNER"]


def _require(preset: Preset, settings: OutcomeSettings) -> None:
    del settings
    require_search_of_matches(preset)
    require_moves_of_all(preset)
    in_worker = preset.selfplay.mode == "afterstates" and preset.afterstates.evaluation == "process"
    if in_worker and preset.network.kind != "perceptron":
        raise ConfigurationError(
            f"afterstates.evaluation=process evaluates perceptrons, and network.kind={preset.network.kind}; set "
            "afterstates.evaluation=server"
        )


LEARNER = LearnerDeclaration(
    implementation="trainer.learners.outcome.learner:OutcomeLearner", settings=OutcomeSettings, require=_require
)
