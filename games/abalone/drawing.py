"""Text and SVG pictures of Abalone: the hexagon with its letters and digits, and the captured marbles."""

from __future__ import annotations

import math
from collections.abc import Mapping

from games import core
from games.abalone import board
from games.abalone.bitboard import owners
from games.core import Game, State
from games.kit import svg
from games.kit.cells import Cell

__all__ = ["COLOURS", "MARKS", "cells", "empty_board", "path", "picture", "svg_picture"]

MARKS = "XO"
"""Marks of the players in text, by seat."""
COLOURS = (svg.INK, svg.PAPER)
"""Colours of the marbles, by seat."""
_RADIUS = 24.0
"""Circumradius of a hexagon, in pixels."""
_CLICKED = 0.8 * _RADIUS  # radius of a cell for clicks
_MARBLES = 14


def captured(state: State) -> tuple[int, int]:
    """Return the numbers of marbles captured by player 0 and player 1."""
    left = list(owners(state).values())
    return _MARBLES - left.count(1), _MARBLES - left.count(0)


def caption(game: Game, state: State) -> str:
    """Return the captures, the plies and the player to move, such as `captured: X 1, O 0; ply 12; O to move`."""
    first, second = captured(state)
    coming = "over" if core.is_over(game, state) else f"{MARKS[core.to_move(game, state)]} to move"
    return f"captured: X {first}, O {second}; ply {int(state[2]) & 0xFFFFFFFF} of {game.spec().max_plies}; {coming}"


def picture(game: Game, state: State) -> str:
    """Return the position as text: rows I to A, and the digits at the lower ends of their diagonals."""
    holders = owners(state)
    lines = []
    for row in reversed(range(board.SIDE)):
        cells = [cell for cell in board.CELLS if cell[0] == row]
        marks = " ".join(MARKS[holders[cell]] if cell in holders else "." for cell in cells)
        digit = f" {cells[-1][1] + 2}" if row < board.SIDE // 2 else ""
        lines.append(f"{' ' * abs(row - board.SIDE // 2)}{'ABCDEFGHI'[row]} {marks}{digit}")
    digits = " ".join(str(column + 1) for _, column in board.CELLS[:5])
    return "\n".join([*lines, f"{' ' * 7}{digits}", caption(game, state)])


def svg_picture(game: Game, state: State) -> str:
    """Return the position as SVG: X is black, O is white; captured marbles lie on the capturing player's side."""
    canvas = _board(owners(state))
    width, height = canvas.width, canvas.height
    for player, taken in enumerate(captured(state)):
        for i in range(taken):
            x, y = (width - (1.2 + 1.1 * (i // 5)) * _RADIUS, (1.2 + 1.1 * (i % 5)) * _RADIUS)
            y = height - y - 1.6 * _RADIUS if player == 0 else y
            canvas.circle(x, y, 0.5 * _RADIUS, fill=COLOURS[1 - player], stroke=svg.INK)
    canvas.text(width / 2, height - 0.8 * _RADIUS, caption(game, state))
    return canvas.render(f"Abalone, {caption(game, state)}")


def empty_board() -> str:
    """Return the board without marbles as SVG."""
    return _board({}).render("Abalone, empty board")


def _board(holders: Mapping[board.Cell, int]) -> svg.Canvas:
    """Return the board with the marbles of these owners, and room for the captured marbles and a caption."""
    canvas = svg.Canvas(_place((4, 8))[0] + 4.2 * _RADIUS, _place((0, 0))[1] + 4.4 * _RADIUS)
    for cell in board.CELLS:
        x, y = _place(cell)
        canvas.polygon(svg.hexagon(x, y, _RADIUS), fill=svg.BOARD, stroke=svg.LINE)
        if cell in holders:
            canvas.circle(x, y, 0.68 * _RADIUS, fill=COLOURS[holders[cell]], stroke=svg.INK)
    for row in range(board.SIDE):
        x, y = _place((row, max(0, row - 4) - 1))
        canvas.text(x + 0.2 * _RADIUS, y, "ABCDEFGHI"[row])
    for column in range(board.SIDE):
        x, y = _place((max(0, column - 4) - 1, column))
        canvas.text(x - 0.1 * _RADIUS, y - 0.2 * _RADIUS, str(column + 1))
    return canvas


def cells() -> tuple[Cell, ...]:
    """Return the cells of the picture, for clicks."""
    return tuple(Cell(board.cell_name(cell), *_place(cell), _CLICKED) for cell in board.CELLS)


def path(state: State, move: board.Move) -> tuple[str, ...]:
    """Return the cells to click for a legal move.

    In line: the rear marble, then the cell that the front one enters. Sideways: both ends of the line, the lower one first,
    then the cell that the higher one enters. The second cell holds a marble of the mover in a sideways move alone.
    """
    rear, front = move.line[0], move.line[-1]
    if move.is_sideways:
        return tuple(map(board.cell_name, (rear, front, board.neighbour(front, move.direction))))
    holders = owners(state)
    while holders.get(front) == holders[rear]:
        front = board.neighbour(front, move.direction)
    return board.cell_name(rear), board.cell_name(front)


def _place(cell: board.Cell) -> tuple[float, float]:
    """Return the centre of a cell, on the board or beyond the rim, in pixels."""
    row, column = cell
    x = (column - row / 2) * math.sqrt(3) * _RADIUS
    return x + 6.5 * _RADIUS, (board.SIDE - 1 - row) * 1.5 * _RADIUS + 1.6 * _RADIUS
