"""Checks of what the file of a game declares: its class and the form of each rule.

They are made as the file is imported, so that a misspelt rule or a forgotten method ends the import and not a game; that of
the number of players, which depends on the parameters, as a game is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from games.errors import GameContractError, InvalidParameters

__all__ = ["METHODS", "require_game_class", "require_opponent", "require_rule"]

_KINDS = (int, float, str)  # bool is an int
METHODS = ("spec", "action_name", "parse_action", "draw")
"""Methods of every game class, as in `games.core.Game`."""


def require_game_class(name: str, cls: type) -> None:
    """Raise `GameContractError` unless a class can be the game `name`: a `NamedTuple` with defaults and all methods."""
    subject = f"{cls.__name__}, registered as the game {name!r},"
    if not (issubclass(cls, tuple) and hasattr(cls, "_field_defaults")):
        raise GameContractError(
            f"{subject} is no NamedTuple; write `class {cls.__name__}(NamedTuple):` with the parameters as fields"
        )
    if bare := [field for field in getattr(cls, "_fields", ()) if field not in cls._field_defaults]:
        raise GameContractError(
            f"{subject} has no default for {', '.join(bare)}; give every parameter one, as in `size: int = 5`"
        )
    for field, default in cls._field_defaults.items():
        if not isinstance(default, _KINDS):
            raise GameContractError(
                f"{subject} has the parameter {field}={default!r} of type {type(default).__name__}; parameters are int, bool, "
                "float or str, which commands and records write as text"
            )
    if missing := [method for method in METHODS if not callable(getattr(cls, method, None))]:
        raise GameContractError(f"{subject} has no method {', '.join(missing)}; define {', '.join(METHODS)} (games.core.Game)")


def require_opponent(game: Any) -> None:
    """Raise `InvalidParameters` for a game of one player; the other bounds of law 8 are left to `check_game`."""
    if getattr(game.spec(), "num_players", None) == 1:
        raise InvalidParameters(f"{game} has one player; games have at least two, as strength is measured against an opponent")


def require_rule(cls: type, function: Callable[..., Any], rules: Mapping[str, Sequence[str]]) -> None:
    """Raise `GameContractError` unless a function has the name and number of arguments of one of `rules`, arguments by name."""
    name = function.__name__
    if name not in rules:
        raise GameContractError(f"@rule({cls.__name__}) is above {name}, which is no rule; rules: {', '.join(rules)}")
    found = list(inspect.signature(function).parameters)
    if len(found) != len(rules[name]):
        raise GameContractError(
            f"{name} of {cls.__name__} has the arguments ({', '.join(found)}); the rule has ({', '.join(rules[name])})"
        )
