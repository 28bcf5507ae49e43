"""Drawn positions of Chinese Checkers on 37 fields: six pieces of each player, on fields that are open to that player."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from games.chinese_checkers.star37 import board, drawing
from games.chinese_checkers.star37.board import turned
from games.chinese_checkers.star37.rules import ChineseCheckersStar37
from games.core import State
from games.errors import InvalidDrawing
from games.kit import svg
from games.kit.cells import Cell
from games.kit.stones import drawings, require_pieces
from games.positions import new_state

__all__ = ["Star37Drawings"]

_PLAYERS = 3
_WHERE_FIRST, _WHERE_PLIES = 40, 48  # bits of word 0
_NAMED = {drawing.field_name(cell): cell for cell in board.STAR}


@drawings(ChineseCheckersStar37)
class Star37Drawings:
    """Rules of drawn positions of Chinese Checkers on 37 fields."""

    colours = svg.PLAYER_COLOURS[:_PLAYERS]

    def __init__(self, game: ChineseCheckersStar37) -> None:
        self._game = game

    def cells(self) -> tuple[Cell, ...]:
        """See `DrawingRules`."""
        return drawing.cells()

    def empty_board(self) -> str:
        """See `DrawingRules`."""
        return drawing.empty_board()

    def stones(self, state: State) -> dict[str, int]:
        """See `DrawingRules`."""
        marks = drawing.marks(state).items()
        return {drawing.field_name(cell): drawing.MARKS.index(mark) for cell, mark in marks if mark != "."}

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """See `DrawingRules`. A player with all pieces in the end zone is the first to finish, and passes."""
        held = [[name for name, owner in stones.items() if owner == seat] for seat in range(_PLAYERS)]
        for seat, names in enumerate(held):
            require_pieces(stones, seat, board.PIECES)
            if strange := sorted(name for name in names if turned(_NAMED[name], -seat) not in board.FIELDS):
                raise InvalidDrawing(
                    f"player {seat + 1} has a piece on {strange[0]}, in a corner of another player, where it cannot go; move it"
                )
        words = [sum(1 << board.FIELDS.index(turned(_NAMED[name], -seat)) for name in names) for seat, names in enumerate(held)]
        finished = [seat for seat, word in enumerate(words) if word == int(board.END_FIELDS)]
        if len(finished) > 1:
            listed = " and ".join(str(seat + 1) for seat in finished)
            raise InvalidDrawing(f"players {listed} have filled their end zones, so the game is over; draw an earlier position")
        spots = sum(int(board.FIELD_SPOTS[seat, field]) for seat, word in enumerate(words) for field in _fields(word))
        first = finished[0] + 1 if finished else 0
        for seat in range(_PLAYERS):
            zone = int(board.END_SPOTS[seat])
            if finished and seat not in finished and spots & zone == zone:
                raise InvalidDrawing(
                    f"player {first} has finished and the end zone of player {seat + 1} is full, so the game is over; draw an "
                    "earlier position"
                )
        state = new_state(self._game)
        state[0] = np.uint64(spots | first << _WHERE_FIRST | player << _WHERE_PLIES)
        state[1] = np.uint64(words[0] | words[1] << 32)
        state[2] = np.uint64(words[2])
        return state


def _fields(word: int) -> list[int]:
    """Return the fields of a word."""
    return [field for field in range(len(board.FIELDS)) if word >> field & 1]
