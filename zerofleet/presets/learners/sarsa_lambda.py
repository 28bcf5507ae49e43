"""Declaration of the learner `sarsa_lambda`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.presets.learners.requirements import require_search_of_matches
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings

__all__ = ["LEARNER"]

_DRAW = 0.5


def _require(preset: Preset, settings: SarsaLambdaSettings) -> None:
    require_search_of_matches(preset)
    if preset.selfplay.mode != "afterstates":
        return
    if preset.afterstates.draw_value != _DRAW:
        raise ConfigurationError(
            f"afterstates.draw_value={preset.afterstates.draw_value}, and train.learner=sarsa_lambda gives a draw the reward "
            f"0, half-way between a loss and a win; want {_DRAW}"
        )
    if settings.method == "q_learning" and preset.afterstates.pool == 0:
        raise ConfigurationError(
            "sarsa_lambda.method=q_learning takes the best of the moves that a player chose from, and afterstates.pool=0 "
            "writes none into the records; set afterstates.pool=6"
        )


LEARNER = LearnerDeclaration(
    implementation="trainer.learners.sarsa_lambda.learner:SarsaLambda",
    settings=SarsaLambdaSettings,
    require=_require,
)
