"""SVG pictures of positions: shapes on a canvas, in a palette shared by all games.

    canvas = Canvas(width=120, height=80)
    canvas.circle(20, 20, 9, fill=PLAYER_COLOURS[0])
    canvas.text(60, 40, "a1")
    canvas.render("Connect Four after d1")

Coordinates are in pixels from the top left corner. `picture` draws the position of any game, falling back
to its text drawing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from games.core import Game, State

__all__ = ["BOARD", "INK", "LINE", "PAPER", "PLAYER_COLOURS", "Canvas", "hexagon", "picture"]

PAPER, BOARD, LINE, INK = "#fbfaf7", "#e9e2d0", "#b8ad93", "#2f2b26"
PLAYER_COLOURS = ("#c8412f", "#e3b23c", "#2f7fb8", "#4a9a5b", "#7d5ba6", "#8a6f52")
"""One per seat; they also differ in brightness, for colour-blind readers."""

_CHARACTER, _ROW = 8.5, 18
_MIDDLE = 0.35  # of the font size, from middle to baseline, the only alignment that all renderers support


class Canvas:
    """Shapes in insertion order; later ones lie on top."""

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self._shapes: list[str] = []

    def circle(self, x: float, y: float, radius: float, *, fill: str, stroke: str = LINE, width: float = 1.0) -> None:
        """Add a circle centred at (x, y)."""
        self._add("circle", cx=x, cy=y, r=radius, fill=fill, stroke=stroke, stroke_width=width)

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "none", corner: float = 0.0
    ) -> None:
        """Add a rectangle whose top left corner is (x, y); `corner` is the radius of its corners."""
        self._add("rect", x=x, y=y, width=width, height=height, rx=corner, fill=fill, stroke=stroke)

    def polygon(self, points: Sequence[tuple[float, float]], *, fill: str, stroke: str = "none") -> None:
        """Add a closed polygon."""
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._add("polygon", points=text, fill=fill, stroke=stroke)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, stroke: str = LINE, width: float = 1.0) -> None:
        """Add a straight line."""
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width)

    def text(
        self, x: float, y: float, text: str, *, size: float = 13.0, fill: str = INK, anchor: str = "middle", bold: bool = False
    ) -> None:
        """Add text centred vertically on y; `anchor` (start, middle, end) is its alignment to x."""
        weight = "bold" if bold else "normal"
        attributes = _attributes(x=x, y=y + _MIDDLE * size, font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)
        self._shapes.append(f'<text {attributes} xml:space="preserve">{escape(text)}</text>')

    def render(self, title: str) -> str:
        """Return the SVG document; `title` is its description for screen readers."""
        width, height = _number(self.width), _number(self.height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                f'role="img" aria-label={quoteattr(title)} font-family="\'DejaVu Sans Mono\', Menlo, Consolas, monospace">',
                f"<title>{escape(title)}</title>",
                f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )

    def _add(self, shape: str, **attributes: float | str) -> None:
        self._shapes.append(f"<{shape} {_attributes(**attributes)}/>")


def hexagon(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """Return the corners of a pointy-top hexagon centred at (x, y), as for cells of a hexagonal board."""
    angles = [math.radians(60 * i + 30) for i in range(6)]
    return [(x + radius * math.cos(angle), y + radius * math.sin(angle)) for angle in angles]


def picture(game: Game, state: State) -> str:
    """Return a position as an SVG document."""
    own = getattr(game, "draw_svg", None)
    if own is not None:
        document: str = own(state)
        return document
    rows = game.draw(state).splitlines()
    canvas = Canvas((max(map(len, rows), default=1) + 4) * _CHARACTER, (len(rows) + 2) * _ROW)
    for i, row in enumerate(rows):
        canvas.text(2 * _CHARACTER, (i + 1.5) * _ROW, row, size=14.0, anchor="start")
    return canvas.render(game.spec().name)


def _attributes(**attributes: float | str) -> str:
    return " ".join(
        f"{name.replace('_', '-')}={quoteattr(value if isinstance(value, str) else _number(value))}"
        for name, value in attributes.items()
    )


def _number(value: float) -> str:
    """Return a coordinate as text; raises `TypeError` or `ValueError` for one that no renderer can place."""
    if not math.isfinite(value):
        raise ValueError(f"a shape has the coordinate {value}")
    return f"{value:.2f}".rstrip("0").rstrip(".")
