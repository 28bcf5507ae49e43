"""Text and SVG pictures of Connect Four: the columns with their letters.

A column is a string of its stones from the bottom, `X` for player 0 and `O` for player 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from games import notation
from games.kit import svg
from games.kit.cells import Cell

__all__ = ["board_cells", "landing_cells", "picture", "text"]

_SIDE, _MARGIN = 44.0, 34.0


def text(stacks: Sequence[str], rows: int) -> str:
    """Return the board as text."""
    margin = len(str(rows))
    lines = []
    for row in reversed(range(rows)):
        cells = " ".join(stack[row] if row < len(stack) else "." for stack in stacks)
        lines.append(f"{row + 1:>{margin}} | {cells} |")
    names = [notation.column_name(column) for column in range(len(stacks))]
    width = max(map(len, names))
    letters = zip(*(name.rjust(width) for name in names), strict=True)  # names of two letters are written downwards
    return "\n".join([*lines, *((" " * (margin + 3) + " ".join(line)).rstrip() for line in letters)])


def picture(stacks: Sequence[str], rows: int) -> str:
    """Return the board as SVG."""
    width, height = _SIDE * len(stacks), _SIDE * rows
    canvas = svg.Canvas(width + 2 * _MARGIN, height + 1.5 * _MARGIN)
    canvas.rectangle(_MARGIN, _MARGIN / 2, width, height, fill=svg.BOARD, corner=6.0)
    for x, stack in enumerate(stacks):
        for y in range(rows):
            colour = svg.PLAYER_COLOURS["XO".index(stack[y])] if y < len(stack) else svg.PAPER
            canvas.circle(_MARGIN + (x + 0.5) * _SIDE, _MARGIN / 2 + height - (y + 0.5) * _SIDE, 0.4 * _SIDE, fill=colour)
        canvas.text(_MARGIN + (x + 0.5) * _SIDE, height + _MARGIN, notation.column_name(x))
    for y in range(rows):
        canvas.text(_MARGIN / 2, _MARGIN / 2 + height - (y + 0.5) * _SIDE, str(y + 1))
    return canvas.render(f"Connect Four after {sum(map(len, stacks))} plies, player 1 red")


def landing_cells(stacks: Sequence[str], rows: int) -> tuple[Cell, ...]:
    """Return, for each column that is not full, the cell on the picture where the next stone lands, named like its move."""
    return tuple(_cell(x, len(stack), rows) for x, stack in enumerate(stacks) if len(stack) < rows)


def board_cells(columns: int, rows: int) -> tuple[Cell, ...]:
    """Return every cell on the picture, column by column from the bottom, named like the move that fills it."""
    return tuple(_cell(x, y, rows) for x in range(columns) for y in range(rows))


def _cell(x: int, y: int, rows: int) -> Cell:
    middle = _MARGIN / 2 + _SIDE * rows - (y + 0.5) * _SIDE
    return Cell(f"{notation.column_name(x)}{y + 1}", _MARGIN + (x + 0.5) * _SIDE, middle, 0.4 * _SIDE)
