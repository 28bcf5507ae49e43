"""Cells of a drawn board that a person can click, for the optional methods `cells` and `action_path` of a game.

    class TicTacToe(NamedTuple):
        def cells(self, state) -> tuple[Cell, ...]: ...                 circles in the coordinates of `draw_svg`
        def action_path(self, state, action) -> tuple[str, ...]: ...    ids of the cells to click in turn

An action without cells, such as a pass, has an empty path; people choose it from the list of moves.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Cell"]


class Cell(NamedTuple):
    """Circle on a picture, in pixels from its top left corner."""

    id: str
    x: float
    y: float
    radius: float
