"""Agreement of the parts of a preset: settings of learner, self-play and gate that only make sense together."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset

__all__ = ["require_agreement"]

_DRAW = 0.5


def require_agreement(chosen: Preset) -> None:
    """Raise `ConfigurationError` for parts that contradict each other."""
    learner, mode = chosen.train.learner, chosen.selfplay.mode
    if learner == "alphazero" and mode == "afterstates":
        raise ConfigurationError(
            "train.learner=alphazero learns from searched positions, and selfplay.mode=afterstates searches none; set "
            "selfplay.mode=search, or train.learner=td_lambda"
        )
    if learner == "alphazero":
        return
    if chosen.gate.simulations == 0:
        raise ConfigurationError(
            f"gate.simulations=0 plays the policy, and a model of train.learner={learner} has values alone; want at least 1"
        )
    if learner == "sarsa_lambda":
        _require_chances(chosen)
        return
    if learner == "outcome":
        _require_results(chosen)
        return
    reward, value = chosen.td_lambda.draw_reward, chosen.afterstates.draw_value
    if mode == "afterstates" and reward != value:
        raise ConfigurationError(
            f"td_lambda.draw_reward={reward} and afterstates.draw_value={value} value a draw differently; want the same number"
        )


def _require_results(chosen: Preset) -> None:
    """Check what `outcome` learns from, and that workers can evaluate its network."""
    if chosen.warm_start.winner_only:
        raise ConfigurationError(
            "warm_start.winner_only=true leaves moves of winners alone, and train.learner=outcome predicts who wins; want false"
        )
    in_worker = chosen.selfplay.mode == "afterstates" and chosen.afterstates.evaluation == "process"
    if in_worker and chosen.network.kind != "perceptron":
        raise ConfigurationError(
            f"afterstates.evaluation=process evaluates perceptrons, and network.kind={chosen.network.kind}; set "
            "afterstates.evaluation=server"
        )


def _require_chances(chosen: Preset) -> None:
    """Check what self-play without a tree must write for `sarsa_lambda`."""
    if chosen.selfplay.mode != "afterstates":
        return
    if chosen.afterstates.draw_value != _DRAW:
        raise ConfigurationError(
            f"afterstates.draw_value={chosen.afterstates.draw_value}, and train.learner=sarsa_lambda gives a draw the reward "
            f"0, half-way between a loss and a win; want {_DRAW}"
        )
    if chosen.sarsa_lambda.method == "q_learning" and chosen.afterstates.pool == 0:
        raise ConfigurationError(
            "sarsa_lambda.method=q_learning takes the best of the moves that a player chose from, and afterstates.pool=0 "
            "writes none into the records; set afterstates.pool=6"
        )
