"""Endings of a game, as metrics count them and lists of games filter by them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from games.core import GameSpec

__all__ = ["ENDINGS", "Ending", "ending_of"]

Ending: TypeAlias = Literal["result", "cut", "resigned", "soft_resigned"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)
"""`result`: over by the rules. `cut`: ended by the maximum of plies, in a game whose positions can recur. `resigned`: ended by
a resignation. `soft_resigned`: played on after a resignation, with reduced searches."""


def ending_of(spec: GameSpec, *, plies: int, has_resigned: bool, has_reduced: bool) -> Ending:
    """Return the ending of a game of `plies` moves.

    `has_resigned`: a player resigned. `has_reduced`: some search has the flag `REDUCED`.
    """
    if has_resigned:
        return "resigned"
    if has_reduced:
        return "soft_resigned"
    return "cut" if spec.repeats and plies >= spec.max_plies else "result"
