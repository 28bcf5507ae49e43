"""Declaration of the learner `sarsa_lambda`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.presets.learners.requirements import require_moves_of_all, require_search_of_matches
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings

__all__ = ["LEARNER"]

_DRAW = 0.5


def _require(preset: Preset, settings: SarsaLambdaSettings) -> None:
    require_search_of_matches(preset)
    require_moves_of_all(preset)
    if settings.method == "q_learning":
        _require_pools(preset)
    if preset.selfplay.mode == "afterstates" and preset.afterstates.draw_value != _DRAW:
        raise ConfigurationError(
            f"afterstates.draw_value={preset.afterstates.draw_value}, and train.learner=sarsa_lambda gives a draw the reward "
            f"0, half-way between a loss and a win; want {_DRAW}"
        )


def _require_pools(preset: Preset) -> None:
    """Raise `ConfigurationError` unless every game of the run has the moves that its players chose from."""
    if preset.selfplay.mode != "afterstates" or preset.afterstates.pool == 0:
        raise ConfigurationError(
            "sarsa_lambda.method=q_learning takes the best of the moves that a player chose from, and selfplay.mode="
            f"{preset.selfplay.mode} with afterstates.pool={preset.afterstates.pool} writes none into the records; set "
            "selfplay.mode=afterstates and afterstates.pool=6"
        )
    if preset.warm_start.games:
        raise ConfigurationError(
            f"warm_start.games={preset.warm_start.games}: the games of agents have no pools, from which sarsa_lambda.method="
            "q_learning learns; set it to 0, and play against agents with afterstates.opponents"
        )


LEARNER = LearnerDeclaration(
    implementation="trainer.learners.sarsa_lambda.learner:SarsaLambda",
    settings=SarsaLambdaSettings,
    require=_require,
)
