"""Coloured boards: the game's plain-text drawing with a colour for each player's marks."""

from __future__ import annotations

import re

from rich.text import Text

from games.core import Game, State
from games.positions import drawing

__all__ = ["PLAYER_STYLES", "colour_board", "player_name", "player_style"]

PLAYER_STYLES = ("bold yellow", "bold red", "bold cyan", "bold green", "bold magenta", "bold blue")


def colour_board(game: Game, state: State, viewer: int | None = None) -> Text:
    """Return the drawing of a position with each player's marks in colour and empty points dimmed.

    With `viewer`, the view of that seat; otherwise everything.
    """
    picture, marks = Text(), _marks(game)
    for line in drawing(game, state, viewer).splitlines():
        for piece in re.split(r"([^\w\s]|\b\w\b)", line):
            picture.append(piece, style=_style(piece, marks))
        picture.append("\n")
    picture.rstrip()
    return picture


def player_name(game: Game, seat: int) -> Text:
    """Return the mark of a seat in the game's drawings, in its colour; `player 1` for a game without marks."""
    marks = _marks(game)
    return Text(marks[seat] if marks else f"player {seat + 1}", style=player_style(seat))


def player_style(seat: int) -> str:
    """Return the colour of a seat."""
    return PLAYER_STYLES[seat % len(PLAYER_STYLES)]


def _marks(game: Game) -> str:
    """Return the players' marks in the game's drawings, by seat; empty for a game that has none."""
    own = getattr(game, "player_marks", None)
    return "" if own is None else own()


def _style(piece: str, marks: str) -> str:
    if len(piece) == 1 and piece in marks:
        return player_style(marks.index(piece))
    return "dim" if piece in {".", "|", "-"} else ""
