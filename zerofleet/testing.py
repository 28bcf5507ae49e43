"""Fakes and helpers for tests of this project and of games and agents built on it."""

import games
from zerofleet.evaluators.fakes import FunctionEvaluator, UniformEvaluator, uniform_answer, uniform_policy

__all__ = ["FunctionEvaluator", "UniformEvaluator", "built_in_games", "uniform_answer", "uniform_policy"]


def built_in_games() -> tuple[str, ...]:
    """Return the games that come with the product, sorted; without those that tests and packages add."""
    return tuple(name for name in games.available() if type(games.make(name)).__module__.startswith("games."))
