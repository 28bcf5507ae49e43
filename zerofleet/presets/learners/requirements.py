"""Requirements that several learners have of a preset."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset

__all__ = ["require_moves_of_all", "require_search_of_matches"]


def require_search_of_matches(preset: Preset) -> None:
    """Raise `ConfigurationError` for matches without search, which a model of values plays at random: its policy is uniform."""
    if preset.gate.simulations == 0:
        raise ConfigurationError(
            f"gate.simulations=0 plays the policy, and a model of train.learner={preset.train.learner} has values alone; want "
            "at least 1"
        )


def require_moves_of_all(preset: Preset) -> None:
    """Raise `ConfigurationError` for games of agents that have the moves of winners alone, in which every reward is a win."""
    if preset.warm_start.winner_only:
        raise ConfigurationError(
            f"warm_start.winner_only=true leaves moves of winners alone, and train.learner={preset.train.learner} predicts who "
            "wins; want false"
        )
