"""Fakes and contract suites for tests of this project and of games, agents and evaluators built on it."""

import games
from zerofleet.testing.evaluators import FunctionEvaluator, check_evaluator

__all__ = ["FunctionEvaluator", "built_in_games", "check_evaluator"]


def built_in_games() -> tuple[str, ...]:
    """Return the built-in games, sorted; without those added by tests and other packages."""
    return tuple(name for name in games.available() if type(games.make(name)).__module__.startswith("games."))
