"""Check of a game's notation in one position: names of the legal actions, their parsing, other text, the drawing (law 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.core import Game
from games.errors import IllegalMove

__all__ = ["notation_fault"]

PARSED = 64
"""Maximum number of actions that are parsed in a position."""
_NONSENSE = "no such move!"


def notation_fault(game: Game, state: np.ndarray, actions: Sequence[int], *, last: str = "") -> str | None:
    """Return the fault that breaks law 7 of `games.core` in a position with these legal actions, or None.

    All actions are named, and at most `PARSED` of them parsed. `last`: notation of the move that led there, which is seldom
    legal again; empty at the start.
    """
    action_of: dict[str, int] = {}
    for action in actions:
        name = game.action_name(state, action)
        if not isinstance(name, str) or name.replace(",", " ").split() != [name]:
            return f"action {action} is written {name!r}; expected text without space and comma, which separate moves"
        if (other := action_of.setdefault(name, action)) != action:
            return f"the actions {other} and {action} are both written {name!r}"
    for name, action in _parsed(list(action_of.items())):
        try:
            read = game.parse_action(state, name)
        except IllegalMove as error:
            return f"action {action} is written {name!r}, which is rejected: {error}"
        if read != action:
            return f"action {action} is written {name!r}, which is parsed as {read}"
    for text, allowed in ((_NONSENSE, ()), *([(last, actions)] if last else [])):
        if (fault := _fault_of_text(game, state, text, allowed)) is not None:
            return fault
    picture = game.draw(state)
    if not isinstance(picture, str):
        return f"draw returned {picture!r}; expected text"
    return None if picture.strip() else "draw returned an empty picture"


def _parsed(named: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the actions to parse: all, or `PARSED` of them from the first to the last, as each may be looked up among all."""
    if len(named) <= PARSED:
        return named
    return [named[round(index)] for index in np.linspace(0, len(named) - 1, PARSED)]


def _fault_of_text(game: Game, state: np.ndarray, text: str, allowed: Sequence[int]) -> str | None:
    """Return the fault in the parsing of a text that may be one of the `allowed` actions, or None."""
    try:
        read = game.parse_action(state, text)
    except IllegalMove:
        return None
    except Exception as error:
        return f"the text {text!r} raised {error!r}"
    return None if read in allowed else f"the text {text!r} was parsed as action {read}, which is not legal here"
