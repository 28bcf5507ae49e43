"""Names of cells, and pictures of the rhombus standing on the corner where player 0 starts.

A cell is a letter for its column and a digit for its row, both counted from that corner: `a1`. Columns run up to the left,
rows up to the right; their letters and digits are at the lower ends.
"""

from __future__ import annotations

from games.chinese_checkers.rhombus.board import CELLS, SIDE, level
from games.kit import svg
from games.kit.cells import Cell

__all__ = ["CELL_NAMES", "cells", "svg_of", "text_of"]

CELL_NAMES = tuple(f"{'abcdefghi'[cell % SIDE]}{cell // SIDE + 1}" for cell in range(CELLS))
_TOP_LEVEL = 2 * SIDE - 2
_RADIUS = 22.0
_WIDE, _HIGH = _RADIUS * 3**0.5, _RADIUS * 1.5
_MARGIN = 30.0
_MIDDLE, _BOTTOM = _MARGIN + SIDE / 2 * _WIDE, _MARGIN + _RADIUS + _TOP_LEVEL * _HIGH  # of the lowest cell


def text_of(marks: str) -> str:
    """Return the board as text; `marks` has one character for each cell."""
    lines = [[" "] * (2 * SIDE + 1) for _ in range(_TOP_LEVEL + 2)]
    for cell, mark in enumerate(marks):
        row, column = divmod(cell, SIDE)
        lines[_TOP_LEVEL - level(cell)][SIDE + column - row] = mark
    for i in range(SIDE):
        lines[_TOP_LEVEL + 1 - i][SIDE - 1 - i] = str(i + 1)
        lines[_TOP_LEVEL + 1 - i][SIDE + 1 + i] = "abcdefghi"[i]
    return "\n".join("".join(line).rstrip() for line in lines)


def svg_of(marks: str, caption: str) -> str:
    """Return the board as SVG; `marks` has one character for each cell: `X`, `O` or `.`."""
    canvas = svg.Canvas(2 * _MIDDLE, _BOTTOM + _HIGH + _MARGIN * 1.6)
    for cell, mark in enumerate(marks):
        x, y = _centre(cell)
        is_home = min(level(cell), _TOP_LEVEL - level(cell)) < 4
        canvas.polygon(svg.hexagon(x, y, _RADIUS), fill=svg.BOARD if is_home else svg.PAPER, stroke=svg.LINE)
        if mark != ".":
            canvas.circle(x, y, 0.66 * _RADIUS, fill=svg.PLAYER_COLOURS["XO".index(mark)], stroke=svg.INK)
            canvas.text(x, y, mark)
    for i in range(SIDE):
        y = _BOTTOM - (i - 1) * _HIGH - 0.25 * _RADIUS
        canvas.text(_MIDDLE - (i + 0.9) * _WIDE / 2, y, str(i + 1))
        canvas.text(_MIDDLE + (i + 0.9) * _WIDE / 2, y, "abcdefghi"[i])
    canvas.text(_MIDDLE, canvas.height - 0.6 * _MARGIN, caption)
    return canvas.render(f"Chinese Checkers, {caption}")


def cells() -> tuple[Cell, ...]:
    """Return the cells of the picture, for clicks."""
    return tuple(Cell(name, *_centre(cell), 0.8 * _RADIUS) for cell, name in enumerate(CELL_NAMES))


def _centre(cell: int) -> tuple[float, float]:
    """Return the centre of a cell on the picture, in pixels."""
    row, column = divmod(cell, SIDE)
    return _MIDDLE + (column - row) * _WIDE / 2, _BOTTOM - level(cell) * _HIGH
