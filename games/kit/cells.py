"""Cells of a drawn board that a person can click, for the optional methods `cells` and `action_path` of a game.

    class TicTacToe(NamedTuple):
        def cells(self, state) -> tuple[Cell, ...]: ...                 circles in the coordinates of `draw_svg`
        def action_path(self, state, action) -> tuple[str, ...]: ...    ids of the cells to click in turn

An action without cells, such as a pass, has an empty path; people choose it from the list of moves. No path of a legal action
begins with that of another, so that the last click decides. With hidden hands, `cells` are those of the player to move alone.

A game may have a third method if each move places one stone of the mover on the single cell of its path, if no stone moves,
changes its owner or leaves the board, and if positions differ only by their stones: then people set up positions by drawing.
Other games have the rules of `games.kit.stones` for that.

        def stone_cells(self) -> tuple[Cell, ...]: ...                  every cell of the board
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Cell", "ends_of"]


class Cell(NamedTuple):
    """Circle on a picture, in pixels from its top left corner."""

    id: str
    x: float
    y: float
    radius: float


def ends_of(name: str) -> tuple[str, ...]:
    """Return the path of a move written as source and target, such as `c3-c4`; empty for others, such as `pass`."""
    return tuple(name.split("-")) if "-" in name else ()
