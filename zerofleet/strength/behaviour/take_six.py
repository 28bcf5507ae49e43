"""Take 6! by turn: cards played, penalty points taken and lengths of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from games.take_six import table
from games.take_six.rules import TakeSix, deck_of
from zerofleet.errors import InvalidRequest
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import Cell, Column, mean_of

__all__ = ["TakeSixTurns"]


class TakeSixTurns:
    """Means over games: of the cards of all players in a turn, of their points after it, of the rows before it."""

    name = "turns"
    title = "Take 6! by turn"
    columns = (
        Column("turn", "turn"),
        Column("card", "card played", "number"),
        Column("penalty", "taken so far", "points a player"),
        Column("row", "row before", "cards"),
    )
    kind: Literal["curve", "bars"] = "curve"

    def __init__(self) -> None:
        self._cards: list[list[float]] = [[] for _ in range(table.HAND)]
        self._points: list[list[float]] = [[] for _ in range(table.HAND)]
        self._rows: list[list[float]] = [[] for _ in range(table.HAND)]

    def add(self, finished: FinishedGame) -> None:
        """Count a game; raises `InvalidRequest` for another game than Take 6!."""
        game = finished.game
        if not isinstance(game, TakeSix):
            raise InvalidRequest(f"{self.title} needs games of take_six, got {game.spec().name}")
        deck = deck_of(game)
        turns = [int(table.turn(state)) for state in finished.states]
        for turn in range(turns[-1]):
            plies = [ply for ply in range(len(finished.moves)) if turns[ply] == turn]
            before, after = finished.states[plies[0]], finished.states[plies[-1] + 1]
            played = [
                int(table.card_of(deck, finished.states[ply], finished.moves[ply])) + game.first_card
                for ply in plies
                if table.chooser(finished.states[ply]) < 0
            ]
            self._cards[turn].append(float(np.mean(played)))
            self._points[turn].append(float(np.mean([table.taken(after, seat) for seat in range(game.players)])))
            self._rows[turn].append(float(np.mean([table.row_count(before, row) for row in range(game.rows)])))

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """See `Collector.rows`."""
        figures = zip(self._cards, self._points, self._rows, strict=True)
        return [(turn, *map(mean_of, lists)) for turn, lists in enumerate(figures, start=1) if lists[0]]
