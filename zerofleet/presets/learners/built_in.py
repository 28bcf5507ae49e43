"""Declarations of the built-in learners, with their requirements of a preset.

The settings of `alphazero` are the parts `train` and `network`; `dqn`, `deep_sarsa` and `combined`, which learn the values of
moves, share the part `deep_q`.
"""

from __future__ import annotations

from collections.abc import Mapping

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration
from zerofleet.presets.learners.requirements import require_moves_of_all, require_search_of_matches
from zerofleet.presets.outcome import OutcomeSettings
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.presets.td_lambda import TdLambdaSettings, view_fault

__all__ = ["LEARNERS"]

_DRAW = 0.5


def _require_alphazero(preset: Preset, settings: None) -> None:
    if preset.selfplay.mode == "afterstates":
        raise ConfigurationError(
            "train.learner=alphazero learns from searched positions, and selfplay.mode=afterstates searches none; set "
            "selfplay.mode=search, or train.learner=td_lambda"
        )


def _require_td_lambda(preset: Preset, settings: TdLambdaSettings) -> None:
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


def _require_sarsa_lambda(preset: Preset, settings: SarsaLambdaSettings) -> None:
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


def _require_deep_q(preset: Preset, settings: None) -> None:
    del settings
    learner = preset.train.learner
    pool_by = "network" if learner == "combined" else preset.deep_q.pool_by  # whatever is set
    if pool_by == "network" and not (preset.combined.models and preset.combined.version):
        raise ConfigurationError(
            f"train.learner={learner} with deep_q.pool_by={pool_by} takes the pool of a trained network; set "
            "combined.models=runs/outcome/models and combined.version=7"
        )
    if preset.warm_start.games:
        raise ConfigurationError(
            f"warm_start.games={preset.warm_start.games}: the games of agents have no pools, from which train.learner="
            f"{learner} learns; set it to 0, and play against agents with afterstates.opponents"
        )
    if pool_by == "values" and preset.network.kind != "q_sa":
        raise ConfigurationError(
            f"deep_q.pool_by=values ranks every legal move by its value, and network.kind={preset.network.kind} values ranks; "
            "set q_sa"
        )


def _require_outcome(preset: Preset, settings: OutcomeSettings) -> None:
    del settings
    require_search_of_matches(preset)
    require_moves_of_all(preset)
    in_worker = preset.selfplay.mode == "afterstates" and preset.afterstates.evaluation == "process"
    if in_worker and preset.network.kind != "perceptron":
        raise ConfigurationError(
            f"afterstates.evaluation=process evaluates perceptrons, and network.kind={preset.network.kind}; set "
            "afterstates.evaluation=server"
        )


LEARNERS: Mapping[str, LearnerDeclaration] = {
    "alphazero": LearnerDeclaration(implementation="trainer.learners.alphazero:AlphaZero", require=_require_alphazero),
    "td_lambda": LearnerDeclaration(
        implementation="trainer.learners.td_lambda.learner:TdLambda",
        settings=TdLambdaSettings,
        require=_require_td_lambda,
        in_lockstep=True,
    ),
    "sarsa_lambda": LearnerDeclaration(
        implementation="trainer.learners.sarsa_lambda.learner:SarsaLambda",
        settings=SarsaLambdaSettings,
        require=_require_sarsa_lambda,
    ),
    "dqn": LearnerDeclaration(implementation="trainer.learners.deep_q.learner:Dqn", require=_require_deep_q, of_actions=True),
    "deep_sarsa": LearnerDeclaration(
        implementation="trainer.learners.deep_q.learner:DeepSarsa", require=_require_deep_q, of_actions=True
    ),
    "outcome": LearnerDeclaration(
        implementation="trainer.learners.outcome.learner:OutcomeLearner", settings=OutcomeSettings, require=_require_outcome
    ),
    "combined": LearnerDeclaration(
        implementation="trainer.learners.combined.learner:Combined", require=_require_deep_q, of_actions=True
    ),
}
"""Built-in learners by name."""
