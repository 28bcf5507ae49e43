"""Pictures of positions in the view of one seat, for games that hide something and for those that hide nothing."""

from __future__ import annotations

from games import core
from games.core import Game, State
from games.kit import svg
from games.positions import drawing

__all__ = ["seen_picture"]

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


def _text_picture(text: str, title: str) -> str:
    rows = text.splitlines()
    canvas = svg.Canvas((max(map(len, rows), default=1) + 4) * _CHARACTER, (len(rows) + 2) * _ROW)
    for i, row in enumerate(rows):
        canvas.text(2 * _CHARACTER, (i + 1.5) * _ROW, row, size=14.0, anchor="start")
    return canvas.render(title)
