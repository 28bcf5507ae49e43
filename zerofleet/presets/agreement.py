"""Agreement of the parts of a preset: settings of learner, self-play and gate that only make sense together."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset

__all__ = ["require_agreement"]

_DRAW = 0.5


def require_agreement(chosen: Preset) -> None:
    """Raise `ConfigurationError` for parts that contradict each other."""
    learner, mode = chosen.train.learner, chosen.selfplay.mode
    _require_measurements(chosen)
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
    reward, value = chosen.td_lambda.draw_reward, chosen.afterstates.draw_value
    if mode == "afterstates" and reward != value:
        raise ConfigurationError(
            f"td_lambda.draw_reward={reward} and afterstates.draw_value={value} value a draw differently; want the same number"
        )


def _require_measurements(chosen: Preset) -> None:
    """Check that mode `watch` of the gate has something to take its share of."""
    in_process = chosen.selfplay.mode == "afterstates" and chosen.afterstates.evaluation == "process"
    if chosen.gate.mode == "watch" and chosen.gate.watch_of == "evaluations" and in_process:
        raise ConfigurationError(
            "gate.watch_of=evaluations takes a share of the inference server's evaluations, and self-play with "
            "afterstates.evaluation=process asks for none, so no version would be measured; set gate.watch_of=time"
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
