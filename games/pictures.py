"""Pictures of positions as one seat sees them, with or without hidden information, and of the start before a deal."""

from __future__ import annotations

from typing import Any

from games import core
from games.core import Game, State
from games.kit import svg
from games.positions import drawing

__all__ = ["is_drawn_undealt", "seen_picture", "undealt_picture"]

_CHARACTER, _ROW = 8.5, 18.0  # pixels


def seen_picture(game: Game, state: State, viewer: int) -> str:
    """Return a position as SVG as a seat sees it: the game's own drawing, or its text where only that hides other hands."""
    own = getattr(game, "draw_svg_for", None)
    if own is not None:
        picture: str = own(state, viewer)
        return picture
    if game.spec().information == "perfect" or core.is_over(game, state):
        return svg.picture(game, state)
    return _text_picture(drawing(game, state, viewer), game.spec().name)


def is_drawn_undealt(game: Game) -> bool:
    """Return whether `undealt_picture` can draw the game: one with a deal must draw its table without one."""
    return game.spec().information != "hidden" or hasattr(game, "draw_svg_undealt")


def undealt_picture(game: Game, start: State) -> str:
    """Return the position where play begins as SVG, as all players see it before the deal; see `is_drawn_undealt`."""
    if game.spec().information != "hidden":
        return seen_picture(game, start, 0)
    draw_svg_undealt: Any = getattr(game, "draw_svg_undealt")  # noqa: B009 - an optional rule
    return str(draw_svg_undealt())


def _text_picture(text: str, title: str) -> str:
    rows = text.splitlines()
    canvas = svg.Canvas((max(map(len, rows), default=1) + 4) * _CHARACTER, (len(rows) + 2) * _ROW)
    for i, row in enumerate(rows):
        canvas.text(2 * _CHARACTER, (i + 1.5) * _ROW, row, size=14.0, anchor="start")
    return canvas.render(title)
