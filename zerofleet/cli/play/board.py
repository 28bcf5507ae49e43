"""Coloured boards: the game's plain-text drawing with a colour for each player's marks."""

from __future__ import annotations

import re

from rich.text import Text

from games.core import Game, State
from games.positions import drawing

__all__ = ["MARKS", "PLAYER_STYLES", "colour_board", "player_name", "player_style"]

MARKS = "XO#*+%"  # the marks games draw, by seat
PLAYER_STYLES = ("bold yellow", "bold red", "bold cyan", "bold green", "bold magenta", "bold blue")


def colour_board(game: Game, state: State, viewer: int | None = None) -> Text:
    """Return the drawing of a position with each player's marks in colour and empty points dimmed.

    With `viewer`, the view of that seat; otherwise everything.
    """
    picture = Text()
    for line in drawing(game, state, viewer).splitlines():
        for piece in re.split(r"([^\w\s]|\b\w\b)", line):
            picture.append(piece, style=_style(piece))
        picture.append("\n")
    picture.rstrip()
    return picture


def player_name(seat: int) -> Text:
    """Return the mark of a seat in its colour."""
    return Text(MARKS[seat % len(MARKS)], style=player_style(seat))


def player_style(seat: int) -> str:
    """Return the colour of a seat."""
    return PLAYER_STYLES[seat % len(PLAYER_STYLES)]


def _style(piece: str) -> str:
    if len(piece) == 1 and piece in MARKS:
        return PLAYER_STYLES[MARKS.index(piece)]
    return "dim" if piece in {".", "|", "-"} else ""
