"""Agreement of the parts of a preset: settings of learner, self-play and gate that only make sense together."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Q_KINDS, Preset

__all__ = ["require_agreement"]

_DRAW = 0.5
_OF_ACTIONS = ("dqn", "deep_sarsa", "combined")


def require_agreement(chosen: Preset) -> None:
    """Raise `ConfigurationError` for parts that contradict each other."""
    learner, mode = chosen.train.learner, chosen.selfplay.mode
    if learner == "alphazero" and mode == "afterstates":
        raise ConfigurationError(
            "train.learner=alphazero learns from searched positions, and selfplay.mode=afterstates searches none; set "
            "selfplay.mode=search, or train.learner=td_lambda"
        )
    _require_served(chosen)
    if learner in _OF_ACTIONS or mode == "action_values":
        _require_action_values(chosen)
        return
    if chosen.afterstates.epsilon_versions:
        raise ConfigurationError(
            f"afterstates.epsilon_versions={chosen.afterstates.epsilon_versions} is for selfplay.mode=action_values, and the "
            f"mode is {mode}; want 0"
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


def _require_served(chosen: Preset) -> None:
    """Check that the frozen opponents are served, where a server evaluates them."""
    afterstates = chosen.afterstates
    by_server = chosen.selfplay.mode == "action_values" or afterstates.evaluation == "server"
    if by_server and (missing := sorted(set(afterstates.frozen) - set(chosen.models.pinned))):
        raise ConfigurationError(
            f"afterstates.opponents has version:{missing[0]}, which the inference server would not keep; set "
            f"models.pinned=[{missing[0]}]"
        )


def _require_action_values(chosen: Preset) -> None:
    """Check that learner, network and self-play all are of action values."""
    learner, mode, kind = chosen.train.learner, chosen.selfplay.mode, chosen.network.kind
    if learner not in _OF_ACTIONS or mode != "action_values" or kind not in Q_KINDS:
        raise ConfigurationError(
            f"train.learner={learner}, selfplay.mode={mode} and network.kind={kind}: the values of moves need all three; set "
            "train.learner=dqn, deep_sarsa or combined, selfplay.mode=action_values and network.kind=q_pool or q_sa"
        )
    by_network = learner == "combined" or chosen.deep_q.pool_by == "network"
    if by_network and not (chosen.combined.models and chosen.combined.version):
        raise ConfigurationError(
            f"train.learner={learner} with deep_q.pool_by={chosen.deep_q.pool_by} takes the pool of a trained network; set "
            "combined.models=runs/outcome/models and combined.version=7"
        )
    if chosen.warm_start.games:
        raise ConfigurationError(
            f"warm_start.games={chosen.warm_start.games}: the games of agents have no pools, from which train.learner="
            f"{learner} learns; set it to 0, and play against agents with afterstates.opponents"
        )
    if chosen.deep_q.pool_by == "values" and kind != "q_sa":
        raise ConfigurationError(
            f"deep_q.pool_by=values ranks every legal move by its value, and network.kind={kind} values ranks; set q_sa"
        )
