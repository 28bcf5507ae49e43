"""Rock paper scissors by turn: choices and results of one seat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from games.rock_paper_scissors import NAMES, RockPaperScissors
from zerofleet.errors import InvalidRequest
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import Cell, Column, score_of, share_of

__all__ = ["RockPaperScissorsTurns", "turn_results"]

_PARTS = 10  # rows of a long game
_LOST, _DRAWN, _WON = range(3)


def turn_results(finished: FinishedGame, seat: int) -> np.ndarray:
    """Return the result of each turn of a game of rock paper scissors for a seat, int8 [turns]: 0 lost, 1 drawn, 2 won."""
    moves = np.array(finished.moves, dtype=np.int8)
    own, other = moves[finished.movers == seat], moves[finished.movers != seat]
    turns = min(len(own), len(other))  # a game that was resigned may end within a turn
    # each choice beats the one before it
    results: np.ndarray = np.array([_DRAWN, _WON, _LOST], dtype=np.int8)[(own[:turns] - other[:turns]) % 3]
    return results


class RockPaperScissorsTurns:
    """Shares of turns in each tenth of the game. Turns of one game depend on each other: a game is one observation."""

    name = "turns"
    kind: Literal["curve", "bars"] = "curve"

    def __init__(self, seat: int = 0) -> None:
        """`seat`: the player whose choices and results are counted."""
        self.title = f"Rock paper scissors by turn, seat {seat + 1}"
        self.columns = (
            Column("first_turn", "from turn"),
            Column("last_turn", "to turn"),
            *(Column(name, name, "%") for name in NAMES),
            Column("won", "won", "%"),
            Column("drawn", "drawn", "%"),
            Column("lost", "lost", "%"),
            Column("net", "won less lost", "turns of 100"),
        )
        self._seat = seat
        self._choices: list[np.ndarray] = []  # int8 [turns] of each game
        self._results: list[np.ndarray] = []  # int8 [turns], _LOST .. _WON

    def add(self, finished: FinishedGame) -> None:
        """Count a game; raises `InvalidRequest` for another game than rock paper scissors."""
        if not isinstance(finished.game, RockPaperScissors):
            raise InvalidRequest(f"{self.title} needs games of rock_paper_scissors, got {finished.game.spec().name}")
        results = turn_results(finished, self._seat)
        own = np.array(finished.moves, dtype=np.int8)[finished.movers == self._seat]
        self._choices.append(own[: len(results)])
        self._results.append(results)

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """See `Collector.rows`."""
        turns = max((len(choices) for choices in self._choices), default=0)
        edges = np.unique(np.linspace(0, turns, min(turns, _PARTS) + 1).round().astype(int)).tolist()
        return [self._row(first, end) for first, end in pairwise(edges)]

    def _row(self, first: int, end: int) -> tuple[Cell, ...]:
        choices = [part for game in self._choices if len(part := game[first:end])]
        results = [part for game in self._results if len(part := game[first:end])]
        chosen = [share_of([float(np.mean(part == choice)) for part in choices]) for choice in range(len(NAMES))]
        ended = [share_of([float(np.mean(part == result)) for part in results]) for result in (_WON, _DRAWN, _LOST)]
        net = score_of([float(np.mean(part - _DRAWN)) for part in results], times=100.0)
        return first + 1, end, *chosen, *ended, net
