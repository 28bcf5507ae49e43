"""Notation of fields, and text and SVG pictures, for the star of 121 fields.

Pictures and messages count players from 1, as people do; arguments count them from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from games.chinese_checkers.star121.board import FIELDS, PLACES, ROWS, SIDE
from games.kit import svg
from games.kit.cells import Cell

__all__ = ["FIELD_NAMES", "FIELD_NUMBERS", "cells", "picture", "text", "why_not"]

_LETTERS = "qponmlkjihgfedcba"
_WIDEST_ROW = 13
_LENGTHS = [sum(int(row) == y for row in ROWS) for y in range(SIDE)]
_FIRSTS = [sum(_LENGTHS[:y]) for y in range(SIDE)]

FIELD_NAMES = tuple(f"{_LETTERS[ROWS[field]]}{field - _FIRSTS[ROWS[field]] + 1}" for field in range(FIELDS))
"""Names of the fields: the letter of the row, from the bottom, and the number in the row, from the left."""
FIELD_NUMBERS = {name: field for field, name in enumerate(FIELD_NAMES)}

_HEXAGON = ((4, 0), (4, -4), (0, -4), (-4, 0), (-4, 4), (0, 4))
"""Row and slanted column of the corners of the central hexagon, clockwise; corner k of the star lies between k and k + 1."""

_STEP, _MARGIN = 34.0, 40.0
_CLICKED = 0.45 * _STEP  # radius of a field for clicks
_ROW_STEP = _STEP * math.sqrt(3) / 2
_TINT = 0.4  # share of a player's colour in the shade of their home


def text(owners: Sequence[int]) -> str:
    """Return the board as text; `owners` is the player on each field, -1 for none."""
    lines = []
    for y, (first, length) in enumerate(zip(_FIRSTS, _LENGTHS, strict=True)):
        fields = " ".join(str(owner + 1) if owner >= 0 else "." for owner in owners[first : first + length])
        lines.append(f"{_LETTERS[y]} {' ' * (_WIDEST_ROW - length)}{fields}")
    return "\n".join(lines)


def picture(owners: Sequence[int], corners: Sequence[int], caption: str) -> str:
    """Return the board as SVG.

    Args:
        owners: The player on each field, -1 for none.
        corners: The corner of each player.
        caption: Text below the board.
    """
    width = (_WIDEST_ROW - 1) * _STEP + 2 * _MARGIN
    height = (SIDE - 1) * _ROW_STEP + 3 * _MARGIN
    canvas = svg.Canvas(width, height)
    for corner in range(6):
        colour = svg.PLAYER_COLOURS[corners.index(corner)] if corner in corners else svg.BOARD
        one, other = _HEXAGON[corner], _HEXAGON[(corner + 1) % 6]
        tip = (one[0] + other[0], one[1] + other[1])
        canvas.polygon([_middle(place) for place in (one, tip, other)], fill=_faded(colour))
    canvas.polygon([_middle(place) for place in _HEXAGON], fill=svg.BOARD)
    for field, owner in enumerate(owners):
        x, y = _middle(PLACES[field])
        if owner >= 0:
            canvas.circle(x, y, 0.38 * _STEP, fill=svg.PLAYER_COLOURS[owner], stroke=svg.INK)
            canvas.text(x, y, str(owner + 1), size=11.0, fill=svg.PAPER)
        else:
            canvas.circle(x, y, 0.22 * _STEP, fill=svg.PAPER)
    for y, letter in enumerate(_LETTERS):
        left = _middle(PLACES[_FIRSTS[y]])[0]
        canvas.text(left - 0.8 * _STEP, _MARGIN + y * _ROW_STEP, letter, size=11.0)
    canvas.text(width / 2, height - _MARGIN / 2, caption)
    return canvas.render(f"Chinese Checkers, {caption}")


def cells() -> tuple[Cell, ...]:
    """Return the fields of the picture, for clicks."""
    return tuple(Cell(name, *_middle(place), _CLICKED) for name, place in zip(FIELD_NAMES, PLACES, strict=True))


def _middle(place: tuple[int, int]) -> tuple[float, float]:
    """Return the position in pixels of the field at a row and slanted column relative to the centre."""
    t, q = place
    x = _MARGIN + (_WIDEST_ROW - 1) / 2 * _STEP + (q + t / 2) * _STEP
    return x, _MARGIN + (t + SIDE // 2) * _ROW_STEP


def _faded(colour: str) -> str:
    """Return a colour blended with that of the paper."""
    channels = [round(_TINT * int(colour[i : i + 2], 16) + (1 - _TINT) * int(svg.PAPER[i : i + 2], 16)) for i in range(1, 7, 2)]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def why_not(owners: Sequence[int], player: int, wanted: str) -> str:
    """Return the reason why a player's move, written as `wanted`, is illegal, or nothing if there is no short one.

    `owners`: the player on each field in the view from corner 0, -1 for none.
    """
    if wanted == "pass":
        return " (passing is legal only if no piece can move)"
    names = wanted.split("-")
    if strange := [name for name in names if name and name not in FIELD_NUMBERS]:
        return f" (there is no field {strange[0]!r}; moves look like d1-e2)"
    if len(names) != 2 or not all(names):
        return " (moves look like d1-e2)"
    origin, target = names
    if owners[FIELD_NUMBERS[origin]] != player:
        return f" (no piece of player {player + 1} is on {origin})"
    if owners[FIELD_NUMBERS[target]] >= 0:
        return f" ({target} is occupied)"
    return ""
