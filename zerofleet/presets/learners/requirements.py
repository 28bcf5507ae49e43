"""Requirements that several learners have of a preset."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Q_KINDS, Preset

__all__ = ["OF_ACTIONS", "require_action_values", "require_search_of_matches"]

OF_ACTIONS = ("dqn", "deep_sarsa", "combined")
"""Learners of the values of moves."""


def require_search_of_matches(preset: Preset) -> None:
    """Raise `ConfigurationError` for matches without search, which a model of values plays at random: its policy is uniform."""
    if preset.gate.simulations == 0:
        raise ConfigurationError(
            f"gate.simulations=0 plays the policy, and a model of train.learner={preset.train.learner} has values alone; want "
            "at least 1"
        )


def require_action_values(preset: Preset) -> None:
    """Raise `ConfigurationError` unless learner, network and self-play all are of the values of moves."""
    learner, mode, kind = preset.train.learner, preset.selfplay.mode, preset.network.kind
    if learner not in OF_ACTIONS or mode != "action_values" or kind not in Q_KINDS:
        raise ConfigurationError(
            f"train.learner={learner}, selfplay.mode={mode} and network.kind={kind}: the values of moves need all three; set "
            "train.learner=dqn, deep_sarsa or combined, selfplay.mode=action_values and network.kind=q_pool or q_sa"
        )
