"""Check of a game's picture in one position: the drawing as the player to move sees it, cells to click and paths (law 12)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.core import Game
from games.pictures import seen_picture

__all__ = ["picture_fault"]


def picture_fault(game: Game, state: np.ndarray, actions: Sequence[int], mover: int) -> str | None:
    """Return the fault that breaks law 12 of `games.core` in a position with these legal actions, or None."""
    picture = seen_picture(game, state, mover)
    if not isinstance(picture, str) or "<svg" not in picture:
        return f"the picture is {picture!r:.80}; expected an SVG document"
    if not hasattr(game, "cells") or not hasattr(game, "action_path"):
        return None
    ids = [cell.id for cell in game.cells(state)]
    if len(set(ids)) < len(ids):
        return f"two cells have one id: {sorted(ids)}"
    action_of: dict[tuple[str, ...], int] = {}
    for action in actions:
        path = tuple(game.action_path(state, action))
        if not set(path) <= set(ids):
            return f"the path {path} of action {action} has cells besides {sorted(ids)}"
        if path and path in action_of:
            return f"the actions {action_of[path]} and {action} have one path, {path}"
        action_of[path] = action
    for path, action in action_of.items():
        if begun := [path[:n] for n in range(1, len(path)) if path[:n] in action_of]:
            return f"the path {path} of action {action} begins with {begun[0]}, that of action {action_of[begun[0]]}"
    return None
