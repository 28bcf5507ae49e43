"""Drawn positions of Chinese Checkers on 121 fields: ten pieces of each player, none of whom has finished."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from games.chinese_checkers.star121 import board as star
from games.chinese_checkers.star121 import drawing
from games.chinese_checkers.star121.rules import ChineseCheckers
from games.core import State
from games.errors import InvalidDrawing
from games.kit import svg
from games.kit.cells import Cell
from games.kit.stones import drawings, require_pieces
from games.positions import new_state

__all__ = ["Star121Drawings"]

_PLIES = 32  # bits below the plies in the status word
_CORNERS = 6


@drawings(ChineseCheckers)
class Star121Drawings:
    """Rules of drawn positions of Chinese Checkers on 121 fields."""

    def __init__(self, game: ChineseCheckers) -> None:
        self._game = game
        self.colours = svg.PLAYER_COLOURS[: game.players]
        owners = game.owners(new_state(game))
        homes = {owners[star.corner_fields(corner)[0]]: corner for corner in range(_CORNERS)}
        self._corners = [homes[seat] for seat in range(game.players)]

    def cells(self) -> tuple[Cell, ...]:
        """See `DrawingRules`."""
        return drawing.cells()

    def empty_board(self) -> str:
        """See `DrawingRules`."""
        return drawing.picture([-1] * star.FIELDS, self._corners, "drawn position")

    def stones(self, state: State) -> dict[str, int]:
        """See `DrawingRules`."""
        owners = zip(drawing.FIELD_NAMES, self._game.owners(state), strict=True)
        return {name: owner for name, owner in owners if owner >= 0}

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """See `DrawingRules`. A drawing has no order of places, so that no player may have finished."""
        fields = {drawing.FIELD_NUMBERS[name]: seat for name, seat in stones.items()}
        held = [sorted(field for field, owner in fields.items() if owner == seat) for seat in range(self._game.players)]
        state = new_state(self._game)
        state[0] = np.uint64(player | player << _PLIES)
        for seat, own in enumerate(held):
            require_pieces(stones, seat, star.CORNER_FIELDS)
            if not self._game.open_corners and (strange := [field for field in own if self._is_aside(seat, field)]):
                raise InvalidDrawing(
                    f"player {seat + 1} has a piece on {drawing.FIELD_NAMES[strange[0]]}, in a corner that open_corners=False "
                    "closes; move it"
                )
            state[1 + 2 * seat], state[2 + 2 * seat] = star.words_of(own)
        moved = (player - 1) % self._game.players
        for seat in range(self._game.players):
            if self._has_finished(fields, seat, has_moved=seat == moved):
                raise InvalidDrawing(f"player {seat + 1} has filled the goal and finished; draw an earlier position")
        return state

    def _is_aside(self, seat: int, field: int) -> bool:
        """Return whether a field is in a corner that is neither home nor goal of a player."""
        seen = int(star.TURNED[self._corners[seat], field])
        return not int(star.WITHOUT_CORNERS[seen >> 6]) >> (seen & 63) & 1

    def _has_finished(self, fields: Mapping[int, int], seat: int, *, has_moved: bool) -> bool:
        """Return whether a player has finished.

        A goal that the pieces of others fill counts with the next move of its player, so only if that one has just moved.
        """
        held = [fields.get(field) for field in star.corner_fields((self._corners[seat] + 3) % _CORNERS)]
        others = star.CORNER_FIELDS - held.count(seat)
        return others == 0 or (has_moved and None not in held and others <= self._game.spoilers)
