"""Histograms of values: results z of the players, and values of the search for the player to move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import Cell, Column, share_of

__all__ = ["Values"]


class Values:
    """Share of results and of searched positions in each bin. A game is one observation."""

    name = "values"
    title = "Histogram of values"
    columns = (
        Column("value", "value", digits=3),
        Column("results", "results z", "% of players"),
        Column("positions", "values of the search", "% of positions"),
    )
    kind: Literal["curve", "bars"] = "curve"

    def __init__(self, bins: int) -> None:
        """`bins`: number of bins, odd; the outer ones are centred on -1 and 1."""
        self._bins = bins
        self._results: list[np.ndarray] = []  # float64 [bins], shares of each game
        self._positions: list[np.ndarray] = []

    def add(self, finished: FinishedGame) -> None:
        """Count a game."""
        self._results.append(self._shares(finished.scores))
        if len(finished.values):
            self._positions.append(self._shares(finished.values))

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """See `Collector.rows`."""
        rows: list[tuple[Cell, ...]] = []
        if not self._results:
            return rows
        for place, centre in enumerate(np.linspace(-1.0, 1.0, self._bins)):
            searched = share_of([shares[place] for shares in self._positions]) if self._positions else None
            rows.append((float(centre) + 0.0, share_of([shares[place] for shares in self._results]), searched))
        return rows

    def _shares(self, values: np.ndarray) -> np.ndarray:
        """Return the share of values in [-1, 1] nearest to each centre."""
        places = np.rint((np.clip(values, -1.0, 1.0).astype(np.float64) + 1.0) / 2.0 * (self._bins - 1)).astype(int)
        return np.bincount(places, minlength=self._bins) / len(values)
