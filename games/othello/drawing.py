"""Text and SVG pictures of Othello: the board with its letters and digits.

`marks` has one character for each cell, row by row from the top left: `X` for player 0, `O` for player 1 or `.`.
"""

from __future__ import annotations

from collections.abc import Container

from games import notation
from games.kit import svg

__all__ = ["centre", "picture", "text"]

_SIDE, _MARGIN = 44.0, 34.0


def text(marks: str, size: int, caption: str) -> str:
    """Return the board as text, with the caption below it."""
    names = " ".join(notation.column_name(x) for x in range(size))
    rows = [f"{y + 1} {' '.join(marks[size * y : size * (y + 1)])}" for y in range(size)]
    return "\n".join([f"  {names}", *rows, caption])


def picture(marks: str, size: int, takeable: Container[int], caption: str) -> str:
    """Return the board as SVG; dots mark the `takeable` cells."""
    length = _SIDE * size
    canvas = svg.Canvas(length + 2 * _MARGIN, length + 2 * _MARGIN)
    canvas.rectangle(_MARGIN, _MARGIN, length, length, fill=svg.BOARD, stroke=svg.INK)
    for i in range(1, size):
        canvas.line(_MARGIN + i * _SIDE, _MARGIN, _MARGIN + i * _SIDE, _MARGIN + length)
        canvas.line(_MARGIN, _MARGIN + i * _SIDE, _MARGIN + length, _MARGIN + i * _SIDE)
    for i in range(size):
        canvas.text(_MARGIN + (i + 0.5) * _SIDE, _MARGIN / 2, notation.column_name(i))
        canvas.text(_MARGIN / 2, _MARGIN + (i + 0.5) * _SIDE, str(i + 1))
    for cell, mark in enumerate(marks):
        x, y = centre(cell, size)
        if mark != ".":
            canvas.circle(x, y, 0.4 * _SIDE, fill=svg.INK if mark == "X" else svg.PAPER, stroke=svg.INK)
        elif cell in takeable:
            canvas.circle(x, y, 0.08 * _SIDE, fill=svg.LINE)
    canvas.text(_MARGIN + length / 2, _MARGIN * 1.5 + length, caption)
    return canvas.render(f"Othello, {caption}")


def centre(cell: int, size: int) -> tuple[float, float]:
    """Return the centre of a cell on the picture, in pixels."""
    return _MARGIN + (cell % size + 0.5) * _SIDE, _MARGIN + (cell // size + 0.5) * _SIDE
