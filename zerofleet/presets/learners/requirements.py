"""Requirements that several learners have of a preset."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset

__all__ = ["require_search_of_matches"]


def require_search_of_matches(preset: Preset) -> None:
    """Raise `ConfigurationError` for matches without search, which a model of values plays at random: its policy is uniform."""
    if preset.gate.simulations == 0:
        raise ConfigurationError(
            f"gate.simulations=0 plays the policy, and a model of train.learner={preset.train.learner} has values alone; want "
            "at least 1"
        )
