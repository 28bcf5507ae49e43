"""Notation and pictures of positions and moves on the star of 37 fields.

Names and pictures are always in the view of player 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from games import core, notation
from games.chinese_checkers.star37 import board
from games.chinese_checkers.star37.board import Cell
from games.core import Game, State
from games.errors import IllegalMove
from games.kit import svg
from games.kit.cells import Cell as Click

__all__ = ["MARKS", "action_name", "cells", "empty_board", "field_name", "marks", "parse_action", "picture", "text"]

MARKS = "XOZ"
"""Marks of the players, by seat."""
_STEP, _MARGIN = 46.0, 40.0  # pixels between fields, and around them
_MOVE = re.compile(r"([a-z]\d+)-?([a-z]\d+)")


def field_name(cell: Cell) -> str:
    """Return the name of a field of the board, such as `c1`."""
    return f"{notation.column_name(cell[1])}{board.SIDE - cell[0]}"


_CELLS = {field_name(cell): cell for cell in board.STAR}


def action_name(player: int, action: int) -> str:
    """Return the notation of a player's action: source and target fields, or `pass`."""
    if action == board.PASS:
        return "pass"
    cells = (board.FIELDS[board.ACTION_FROM[action]], board.FIELDS[board.ACTION_TO[action]])
    return "-".join(field_name(board.turned(cell, player)) for cell in cells)


def marks(state: State) -> dict[Cell, str]:
    """Return the mark of every field of the board: `X`, `O`, `Z` for the players' pieces, `.` for an empty field."""
    found = dict.fromkeys(board.STAR, ".")
    words = (int(state[1]), int(state[1]) >> 32, int(state[2]))
    for player, word in enumerate(words):
        for field, cell in enumerate(board.FIELDS):
            if word >> field & 1:
                found[board.turned(cell, player)] = MARKS[player]
    return found


def text(game: Game, state: State) -> str:
    """Return the position as text, with the names of each row's first and last field, and a caption."""
    standing = marks(state)
    lines = []
    for row in range(board.SIDE):
        cells = [cell for cell in board.STAR if cell[0] == row]
        margin = 2 * cells[0][1] + row - 6  # each row down, columns shift right by half a field
        names = field_name(cells[0]), field_name(cells[-1])
        lines.append(f"{' ' * margin}{names[0]} {' '.join(standing[cell] for cell in cells)} {names[1]}")
    return "\n".join([*lines, _caption(game, state)])


def _caption(game: Game, state: State) -> str:
    """Return the points and the player to move, such as `X 3, O 0, Z 0, O to move`."""
    points = [int(bool(int(state[0]) >> 42 + player & 1)) for player in range(3)]
    if first := int(state[0]) >> 40 & 3:
        points[first - 1] = 3
    shown = ", ".join(f"{mark} {point}" for mark, point in zip(MARKS, points, strict=True))
    if core.is_over(game, state):
        return f"{shown}, over"
    return f"{shown}, {MARKS[core.to_move(game, state)]} to move"


def parse_action(game: Game, state: State, text: str) -> int:
    """Return the legal action written as `text`; raises `IllegalMove` with the reason, if known, and the legal moves."""
    legal = notation.legal_names(game, state)
    wanted = text.strip().lower()
    if move := _MOVE.fullmatch(wanted):
        wanted = f"{move[1]}-{move[2]}"
    if wanted in legal:
        return legal[wanted]
    if not legal:
        raise IllegalMove(f"{text.strip()!r} is not a legal move here: the game is over")
    reason = _why_not(state, core.to_move(game, state), wanted, legal)
    raise IllegalMove(f"{text.strip()!r} is not a legal move here{reason}; legal: {' '.join(legal)}")


def _why_not(state: State, player: int, wanted: str, legal: Mapping[str, int]) -> str:
    """Return the reason why a move is illegal, or nothing if the text is not a move."""
    if wanted == "pass":
        return " (passing is legal only if no piece can move)"
    move = _MOVE.fullmatch(wanted)
    if move is None:
        return ""
    if missing := [name for name in move.groups() if name not in _CELLS]:
        return f" (there is no field {missing[0]})"
    standing = marks(state)
    start, end = _CELLS[move[1]], _CELLS[move[2]]
    if standing[start] != MARKS[player]:
        return f" ({move[1]} holds no piece of {MARKS[player]}, who is to move)"
    if "pass" in legal and int(state[0]) >> 40 & 3 == player + 1:
        return f" ({MARKS[player]} has finished)"
    if standing[end] != ".":
        return f" ({move[2]} is occupied)"
    if board.turned(end, -player) not in board.FIELDS:
        return f" ({move[2]} is in a corner of another player)"
    return f" (no hop or legal chain of jumps leads from {move[1]} to {move[2]})"


def picture(game: Game, state: State) -> str:
    """Return the position as SVG; fields of end zones have a ring in their player's colour."""
    canvas, caption = _board(marks(state)), _caption(game, state)
    canvas.text(canvas.width / 2, canvas.height - 22, caption)
    return canvas.render(f"Chinese Checkers on 37 fields, {caption}")


def empty_board() -> str:
    """Return the board without pieces as SVG."""
    return _board(dict.fromkeys(board.STAR, ".")).render("Chinese Checkers on 37 fields, empty board")


def _board(standing: Mapping[Cell, str]) -> svg.Canvas:
    """Return the board with the marks of its fields, as those of `marks`, and room for a caption."""
    canvas = svg.Canvas(6 * _STEP + 2 * _MARGIN, 8 * _STEP * 3**0.5 / 2 + 2 * _MARGIN + 20)
    zones = _zones()
    for cell, mark in standing.items():
        x, y = _middle(cell)
        owner = zones.get(cell)
        ring = svg.LINE if owner is None else svg.PLAYER_COLOURS[owner]
        canvas.circle(x, y, 0.44 * _STEP, fill=svg.BOARD, stroke=ring, width=1.0 if owner is None else 3.0)
        if mark == ".":
            canvas.text(x, y, field_name(cell), size=10.0, fill=svg.LINE)
        else:
            canvas.circle(x, y, 0.34 * _STEP, fill=svg.PLAYER_COLOURS[MARKS.index(mark)], stroke=svg.INK)
            canvas.text(x, y, mark, fill=svg.PAPER, bold=True)
    return canvas


def cells() -> tuple[Click, ...]:
    """Return the fields of the picture, for clicks."""
    return tuple(Click(field_name(cell), *_middle(cell), 0.44 * _STEP) for cell in board.STAR)


def _middle(cell: Cell) -> tuple[float, float]:
    """Return the centre of a field on the picture, in pixels."""
    row, column = cell
    return _MARGIN + (column + row / 2 - 3) * _STEP, _MARGIN + row * _STEP * 3**0.5 / 2


def _zones() -> dict[Cell, int]:
    """Return the player of each field in an end zone."""
    ends = [cell for field, cell in enumerate(board.FIELDS) if int(board.END_FIELDS) >> field & 1]
    return {board.turned(cell, player): player for player in range(3) for cell in ends}
