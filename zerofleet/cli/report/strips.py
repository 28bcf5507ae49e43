"""Strips of boards: a stored game as a row of positions, drawn by the game itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from games.kit import svg
from zerofleet.library.run_files import OpenRun
from zerofleet.library.stored_games import GameRow

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


def draw_strips(run: OpenRun, rows: Sequence[GameRow], *, most_bytes: int = STRIP_BYTES) -> list[Strip]:
    """Return a strip for each game, as long as all of them fit into `most_bytes`.

    A stored game is over, so nothing on its boards is hidden. Raises `RecordRejected` for a damaged game.
    """
    strips: list[Strip] = []
    left_bytes = most_bytes
    for row in rows:
        boards = []
        for caption, picture in _boards(run, row):
            left_bytes -= len(picture)
            if left_bytes < 0:
                return strips
            boards.append((caption, picture))
        strips.append(Strip(row, tuple(boards)))
    return strips


def _boards(run: OpenRun, row: GameRow) -> Iterator[tuple[str, str]]:
    _, stored = run.stored(row.uid)
    last = len(stored.states) - 1
    for ply in np.unique(np.linspace(0, last, BOARDS).round().astype(np.int64)).tolist():
        caption = f"{ply}. {row.moves[ply - 1]}" if ply else "start"
        yield caption, svg.picture(stored.game, stored.states[ply])
