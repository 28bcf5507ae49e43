"""Drawn positions of Othello: discs on the board, each linked to the four cells in the middle, which are never empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from games.core import State
from games.errors import InvalidDrawing
from games.kit import svg
from games.kit.cells import Cell
from games.kit.stones import drawings
from games.othello import drawing
from games.othello.rules import Othello, is_over, position_of
from games.positions import new_state

__all__ = ["OthelloDrawings"]


@drawings(Othello)
class OthelloDrawings:
    """Rules of drawn positions of Othello."""

    colours = svg.INK, svg.PAPER

    def __init__(self, game: Othello) -> None:
        self._game = game
        self._start = new_state(game)
        self._names = [cell.id for cell in game.cells(self._start)]

    def cells(self) -> tuple[Cell, ...]:
        """See `DrawingRules`."""
        return self._game.cells(self._start)

    def empty_board(self) -> str:
        """See `DrawingRules`."""
        return drawing.picture("." * len(self._names), self._game.size, (), "drawn position")

    def stones(self, state: State) -> dict[str, int]:
        """See `DrawingRules`."""
        marks = self._game.marks(state)
        return {name: "XO".index(mark) for name, mark in zip(self._names, marks, strict=True) if mark != "."}

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """See `DrawingRules`. From the second move on either player may be to move, since players pass."""
        start = self.stones(self._start)
        if empty := sorted(start.keys() - stones.keys()):
            raise InvalidDrawing(f"the four cells in the middle are never empty; put a disc on {', '.join(empty)}")
        if loose := sorted(stones.keys() - self._linked(stones, start)):
            raise InvalidDrawing(f"no line of adjacent discs leads from {loose[0]} to the middle; add discs, or remove it")
        if len(stones) == len(start) and (dict(stones), player) != (start, 0):
            raise InvalidDrawing("4 discs are the start, where player 1 is to move; draw the start, or more discs")
        if len(stones) == len(start) + 1 and player == 0:
            raise InvalidDrawing("5 discs are those after the first move, of player 1; let player 2 move, or change the discs")
        state = position_of(self._game, "".join(".XO"[stones.get(name, -1) + 1] for name in self._names), player)
        if is_over(self._game, state):
            raise InvalidDrawing("the game is over here: neither player can flip a disc; draw an earlier position")
        return state

    def _linked(self, stones: Mapping[str, int], start: Iterable[str]) -> set[str]:
        """Return the cells with discs that a line of adjacent discs links to the middle: each disc was put beside others."""
        size, reached = self._game.size, set(start)
        fresh = list(reached)
        while fresh:
            y, x = divmod(self._names.index(fresh.pop()), size)
            around = ((y + down, x + right) for down in (-1, 0, 1) for right in (-1, 0, 1))
            names = {self._names[row * size + column] for row, column in around if 0 <= row < size and 0 <= column < size}
            beside = (names & stones.keys()) - reached
            reached |= beside
            fresh.extend(beside)
        return reached
