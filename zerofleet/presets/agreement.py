"""Agreement of the parts of a preset: settings of learner, self-play and gate that only make sense together."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset

__all__ = ["require_agreement"]


def require_agreement(chosen: Preset) -> None:
    """Raise `ConfigurationError` for parts that contradict each other."""
    learner, mode = chosen.train.learner, chosen.selfplay.mode
    if learner == "alphazero" and mode == "afterstates":
        raise ConfigurationError(
            "train.learner=alphazero learns from searched positions, and selfplay.mode=afterstates searches none; set "
            "selfplay.mode=search, or train.learner=td_lambda"
        )
    if learner != "td_lambda":
        return
    if chosen.gate.simulations == 0:
        raise ConfigurationError(
            "gate.simulations=0 plays the policy, and a model of train.learner=td_lambda has values alone; want at least 1"
        )
    reward, value = chosen.td_lambda.draw_reward, chosen.afterstates.draw_value
    if mode == "afterstates" and reward != value:
        raise ConfigurationError(
            f"td_lambda.draw_reward={reward} and afterstates.draw_value={value} value a draw differently; want the same number"
        )
