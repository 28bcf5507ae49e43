"""Drawn positions of Abalone: the marbles that both players still have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from games.abalone import bitboard, drawing
from games.abalone.board import cell_name
from games.abalone.rules import MARBLES, Abalone
from games.core import State
from games.errors import InvalidDrawing
from games.kit.cells import Cell
from games.kit.stones import counted, drawings
from games.positions import new_state

__all__ = ["AbaloneDrawings"]


@drawings(Abalone)
class AbaloneDrawings:
    """Rules of drawn positions of Abalone."""

    colours = drawing.COLOURS

    def __init__(self, game: Abalone) -> None:
        self._game = game

    def cells(self) -> tuple[Cell, ...]:
        """See `DrawingRules`."""
        return drawing.cells()

    def empty_board(self) -> str:
        """See `DrawingRules`."""
        return drawing.empty_board()

    def stones(self, state: State) -> dict[str, int]:
        """See `DrawingRules`."""
        return {cell_name(cell): seat for cell, seat in bitboard.owners(state).items()}

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """See `DrawingRules`. The marbles that are missing are captured."""
        fewest = MARBLES - self._game.captures + 1
        wanted = f"{fewest} to {MARBLES}" if fewest < MARBLES else str(MARBLES)
        for seat in range(2):
            marbles = list(stones.values()).count(seat)
            if not fewest <= marbles <= MARBLES:
                raise InvalidDrawing(
                    f"player {seat + 1} has {counted(marbles, 'marble')}, expected {wanted}: a player begins with {MARBLES} "
                    f"and has lost with {fewest - 1}; add or remove marbles"
                )
        if player >= self._game.ply_cap:
            raise InvalidDrawing(f"the game ends after ply_cap={self._game.ply_cap} moves, before player 2; let player 1 move")
        state = new_state(self._game)
        for seat in range(2):
            state[seat] = bitboard.word(" ".join(cell for cell, owner in stones.items() if owner == seat))
        state[2] = np.uint64(player)
        if not bitboard.can_move(state[player], state[1 - player]):
            raise InvalidDrawing(f"player {player + 1} is to move and has no move, so the game is over; change the marbles")
        return state
