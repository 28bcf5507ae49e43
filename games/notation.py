"""Helpers shared by the notation of all games: column names, listed moves and parameter ranges."""

from __future__ import annotations

import numpy as np

from games import core
from games.errors import IllegalMove, InvalidParameters

__all__ = ["column_name", "legal_names", "parse_listed", "require_range"]


def column_name(index: int) -> str:
    """Return the letters of a column as in spreadsheets: a .. z, then aa, ab, .. az, ba, .."""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("a") + digit) + letters
    return letters


def legal_names(game: core.Game, state: core.State) -> dict[str, int]:
    """Return the legal actions of the position by notation, in ascending order."""
    actions = np.empty(game.spec().max_legal, dtype=np.int16)
    count = core.legal_actions(game, state, actions)
    return {game.action_name(state, int(a)): int(a) for a in actions[:count]}


def parse_listed(game: core.Game, state: core.State, text: str) -> int:
    """Return the legal action written as `text`, ignoring case and surrounding space; raises `IllegalMove`."""
    names = legal_names(game, state)
    wanted = text.strip().lower()
    for name, action in names.items():
        if name.lower() == wanted:
            return action
    raise IllegalMove(f"{text.strip()!r} is not a legal move here; legal: {' '.join(names) or 'none, the game is over'}")


def require_range(game: str, name: str, value: int, lowest: int, highest: int) -> None:
    """Raise `InvalidParameters` unless lowest <= value <= highest."""
    if not lowest <= value <= highest:
        raise InvalidParameters(f"{game}: {name}={value} is out of range; it must be between {lowest} and {highest}")
