"""Strips of boards: a stored game as a row of positions, drawn by the game itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from games.kit import svg
from zerofleet.contracts.records import ValidatedGame
from zerofleet.library.run_files import OpenRun
from zerofleet.library.stored_games import GameRow, search_marks

__all__ = ["STRIP_BYTES", "Strip", "draw_strips"]

BOARDS = 8
STRIP_BYTES = 2 << 20
"""Size of all boards of a report, at most: it stays far below 5 MB for boards of hundreds of cells."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Some positions of a game."""

    row: GameRow
    boards: tuple[tuple[str, str], ...]
    """Caption and SVG of each position."""
    has_marks: bool
    """Whether a caption marks the search of its move as fast or reduced."""


def draw_strips(run: OpenRun, rows: Sequence[GameRow], *, most_bytes: int = STRIP_BYTES) -> list[Strip]:
    """Return a strip for each game, as long as all of them fit into `most_bytes`.

    A stored game is over, so nothing on its boards is hidden. Raises `RecordRejected` for a damaged game.
    """
    strips: list[Strip] = []
    left_bytes = most_bytes
    for row in rows:
        _, stored = run.stored(row.uid)
        marks, plies = ["", *search_marks(stored)], _plies(stored)
        boards = []
        for ply in plies:
            caption = f"{ply}. {row.moves[ply - 1]}{marks[ply]}" if ply else "start"
            boards.append((caption, svg.picture(stored.game, stored.states[ply])))
            left_bytes -= len(boards[-1][1])
            if left_bytes < 0:
                return strips
        strips.append(Strip(row, tuple(boards), has_marks=any(marks[ply] for ply in plies)))
    return strips


def _plies(stored: ValidatedGame) -> list[int]:
    """Return the shown positions, evenly spaced from the first to the last."""
    found: list[int] = np.unique(np.linspace(0, len(stored.states) - 1, BOARDS).round().astype(np.int64)).tolist()
    return found
