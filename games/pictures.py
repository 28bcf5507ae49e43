"""Pictures of positions as one seat sees them, with or without hidden information, and of the start before a deal."""

from __future__ import annotations

from games import core
from games.core import Game, State
from games.kit import svg
from games.positions import drawing

__all__ = ["seen_picture", "undealt_picture"]

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


def undealt_picture(game: Game, start: State) -> str | None:
    """Return the position where play begins as SVG, as all players see it before the deal.

    None for a game with a deal that does not draw its table without one (`draw_svg_undealt`).
    """
    if game.spec().information != "hidden":
        return seen_picture(game, start, 0)
    own = getattr(game, "draw_svg_undealt", None)
    return None if own is None else str(own())


def _text_picture(text: str, title: str) -> str:
    rows = text.splitlines()
    canvas = svg.Canvas((max(map(len, rows), default=1) + 4) * _CHARACTER, (len(rows) + 2) * _ROW)
    for i, row in enumerate(rows):
        canvas.text(2 * _CHARACTER, (i + 1.5) * _ROW, row, size=14.0, anchor="start")
    return canvas.render(title)
