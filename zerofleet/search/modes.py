"""Which compiled search a game and its settings call for."""

from __future__ import annotations

from typing import Any

from games import core
from games.core import Game
from zerofleet.search import determinise, kernel, predict
from zerofleet.search.settings import SearchSettings

__all__ = ["mode_of"]

_SEARCHES = {"open": kernel, "predict": predict, "determinise": determinise}
_NEEDED = {"open": (), "predict": ("determinise", "foresee", "play_foreseen"), "determinise": ("determinise",)}


def mode_of(game: Game, settings: SearchSettings) -> Any:
    """Return the module whose `advance` and `absorb` search the game. Raises `ValueError` where that would be unsound.

    Without simulations nothing is searched, so nothing can be given away: the mode does not matter then.
    """
    name, secrets, mode = game.spec().name, game.spec().information, settings.information
    if settings.simulations == 0:
        return kernel
    if mode == "open" and secrets != "perfect":
        raise ValueError(
            f"{name} is a game of {secrets} information; a search of the position as it is would see what the player does not. "
            "Set information=determinise, information=predict, or simulations=0"
        )
    if mode != "open" and secrets == "perfect":
        raise ValueError(f"nothing in {name} is hidden, so information={mode} has nothing to do; set information=open")
    if missing := [rule for rule in _NEEDED[mode] if not core.has_rule(type(game), rule)]:
        raise ValueError(f"{name} has no rule {', '.join(missing)}, which information={mode} needs")
    return _SEARCHES[mode]
