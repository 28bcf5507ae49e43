"""Drawn positions of Chinese Checkers on the rhombus: ten pieces of each player, and no goal that ends the game."""

from __future__ import annotations

from collections.abc import Mapping

from games.chinese_checkers.rhombus import board, drawing
from games.chinese_checkers.rhombus.moves import can_move
from games.chinese_checkers.rhombus.rules import WORDS, ChineseCheckersRhombus, key
from games.core import State
from games.errors import InvalidDrawing
from games.kit import svg
from games.kit.cells import Cell
from games.kit.stones import drawings, require_pieces
from games.positions import new_state

__all__ = ["RhombusDrawings"]

_HOME_LEVELS = 4
_TOP_LEVEL = 2 * board.SIDE - 2
_GOALS = (
    [drawing.CELL_NAMES[cell] for cell in range(board.CELLS) if board.level(cell) > _TOP_LEVEL - _HOME_LEVELS],
    [drawing.CELL_NAMES[cell] for cell in range(board.CELLS) if board.level(cell) < _HOME_LEVELS],
)
"""Cells of each player's goal."""


@drawings(ChineseCheckersRhombus)
class RhombusDrawings:
    """Rules of drawn positions of Chinese Checkers on the rhombus."""

    colours = svg.PLAYER_COLOURS[:2]

    def __init__(self, game: ChineseCheckersRhombus) -> None:
        self._game = game

    def cells(self) -> tuple[Cell, ...]:
        """See `DrawingRules`."""
        return drawing.cells()

    def empty_board(self) -> str:
        """See `DrawingRules`."""
        return drawing.svg_of("." * board.CELLS, "drawn position")

    def stones(self, state: State) -> dict[str, int]:
        """See `DrawingRules`."""
        marks = zip(drawing.CELL_NAMES, self._game.marks(state), strict=True)
        return {name: "XO".index(mark) for name, mark in marks if mark != "."}

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """See `DrawingRules`. The position is the first that `repetitions` counts."""
        for seat in range(2):
            require_pieces(stones, seat, board.PIECES)
        for seat in range(2):
            if self._is_full(seat, stones):
                raise InvalidDrawing(f"the goal of player {seat + 1} is full, so the game is over; draw an earlier position")
        if player >= self._game.ply_cap:
            raise InvalidDrawing(f"the game ends after ply_cap={self._game.ply_cap} moves, before player 2; let player 1 move")
        state = new_state(self._game)
        state[:] = 0
        state[0] = player
        for seat in range(2):
            cells = (drawing.CELL_NAMES.index(name) for name, owner in stones.items() if owner == seat)
            state[1 + 2 * seat], state[2 + 2 * seat] = board.words_of(cells)
        taken = (state[1] | state[3], state[2] | state[4])
        if not can_move(state[1 + 2 * player], state[2 + 2 * player], taken):
            raise InvalidDrawing(f"player {player + 1} is to move and has no move, so the game is over; change the pieces")
        if self._game.repetitions:
            state[WORDS + player] = key(self._game, state)
        return state

    def _is_full(self, seat: int, stones: Mapping[str, int]) -> bool:
        """Return whether a player's goal is full and ends the game: with `anti_spoiling` one own piece there is enough."""
        held = [stones.get(cell) for cell in _GOALS[seat]]
        if self._game.anti_spoiling:
            return None not in held and seat in held
        return held.count(seat) == board.PIECES
