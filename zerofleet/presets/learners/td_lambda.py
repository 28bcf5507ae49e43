"""Declaration of the learner `td_lambda`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.presets.learners.requirements import require_moves_of_all, require_search_of_matches
from zerofleet.presets.td_lambda import TdLambdaSettings, view_fault

__all__ = ["LEARNER"]


def _require(preset: Preset, settings: TdLambdaSettings) -> None:
    require_search_of_matches(preset)
    require_moves_of_all(preset)
    if settings.exploratory == "cut" and preset.selfplay.mode != "afterstates":
        raise ConfigurationError(
            f"td_lambda.exploratory=cut ends a trace at moves that the records name exploratory, and selfplay.mode="
            f"{preset.selfplay.mode} names none; want td_lambda.exploratory=learn, or selfplay.mode=afterstates"
        )
    if fault := view_fault(settings, preset.afterstates.learner_seat):
        raise ConfigurationError(fault)
    reward, value = settings.draw_reward, preset.afterstates.draw_value
    if preset.selfplay.mode == "afterstates" and reward != value:
        raise ConfigurationError(
            f"td_lambda.draw_reward={reward} and afterstates.draw_value={value} value a draw differently; want the same number"
        )


LEARNER = LearnerDeclaration(
    implementation="trainer.learners.td_lambda.learner:TdLambda",
    settings=TdLambdaSettings,
    require=_require,
    in_lockstep=True,
)
