"""Placements by seat: how often each seat is first, second and so on, and its mean score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import Cell, Column, count_of, score_of
from zerofleet.strength.matches.scoreboard import DRAW_TOLERANCE

__all__ = ["Placements"]

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


class Placements:
    """Placings of each seat; players with equal scores share the better placing."""

    name = "placements"
    title = "Placements by seat"
    kind: Literal["curve", "bars"] = "bars"

    def __init__(self, players: int) -> None:
        """`players`: number of seats."""
        self.columns = (
            Column("seat", "seat"),
            Column("games", "games"),
            *(Column(f"placing_{place + 1}", _ordinal(place + 1), "%") for place in range(players)),
            Column("score", "mean score", "-1 to 1", digits=3),
        )
        self._scores: list[np.ndarray] = []  # float32 [P] of each game

    def add(self, finished: FinishedGame) -> None:
        """Count a game."""
        self._scores.append(finished.scores)

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """See `Collector.rows`."""
        if not self._scores:
            return []
        scores = np.array(self._scores, dtype=np.float64)
        better = (scores[:, None, :] > scores[:, :, None] + DRAW_TOLERANCE).sum(axis=2)  # [N, P] players placed better
        games, players = scores.shape
        rows: list[tuple[Cell, ...]] = []
        for seat in range(players):
            counts = np.bincount(better[:, seat], minlength=players).tolist()
            placings = [count_of(count, games) for count in counts]
            rows.append((f"seat {seat + 1}", games, *placings, score_of(scores[:, seat].tolist())))
        return rows


def _ordinal(number: int) -> str:
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, 'th')}"
