"""Results of self-play by seat over the course of a run, from an even sample of its stored games.

A game is worth a point, which the seats with the highest score share: with two players 1 for a win and 1/2 for a draw. The rows
of the group `seats` are windows of equally many sampled games.
"""

from __future__ import annotations

import math

import numpy as np

from zerofleet.contracts.records import decode_record
from zerofleet.errors import RecordRejected
from zerofleet.library.metrics import Metrics
from zerofleet.library.series import Axes, RunSeries, Series, began_s
from zerofleet.storage.game_log import GameLog

__all__ = ["MOST_SAMPLED", "MOST_WINDOWS", "WINDOW_GAMES", "SeatSample", "with_seats"]

MOST_SAMPLED = 2000
"""Most games that are read, of a run of any length; a run of fewer is read whole."""
WINDOW_GAMES = 50
"""Fewest sampled games of a window, unless the run has fewer: a share then has a standard error of at most 0.07."""
MOST_WINDOWS = 20
CHART = "Results by seat"
TIE_TOLERANCE = 1e-6  # scores are float32 sums


class SeatSample:
    """Winners of the games whose numbers are multiples of a power of two; a further read decodes what is new alone.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._winners: dict[int, tuple[bool, ...] | None] = {}  # by number; None for a game that cannot be read
        self._end = 0

    def read(self, log: GameLog) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the sampled games, int64 [games], ascending, and who won, bool [games, seats].

        Several seats win a game that is shared. Damaged games and those of another release are left out.
        """
        stored = log.end_index - log.start_index
        stride = 1 << max(0, math.ceil(math.log2(max(1, stored) / MOST_SAMPLED)))
        known = self._winners if log.end_index >= self._end else {}  # another log, where games are missing at the end
        wanted = range(-(-log.start_index // stride) * stride, log.end_index, stride)
        self._end = log.end_index
        self._winners = {number: known[number] if number in known else _winners(log, number) for number in wanted}
        found = {number: winners for number, winners in self._winners.items() if winners is not None}
        return np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=bool)


def with_seats(found: RunSeries, metrics: Metrics, numbers: np.ndarray, winners: np.ndarray) -> RunSeries:
    """Return the series of a run with the shares of the points by seat, and of the games that are shared, in windows.

    `numbers`: int64 [games], and `winners`: bool [games, seats], of a `SeatSample`. The place of a window is its mean game;
    step and hour are those at which the trainer had stored as many.
    """
    if not len(numbers):
        return found
    windows = np.array_split(np.arange(len(numbers)), min(MOST_WINDOWS, max(1, len(numbers) // WINDOW_GAMES)))
    points = winners / winners.sum(axis=1, keepdims=True)
    shared = winners.sum(axis=1) > 1
    seats = [
        Series(
            name=f"seat_{seat + 1}",
            label=f"seat {seat + 1}",
            unit="share",
            chart=CHART,
            group="seats",
            values=tuple(float(points[window, seat].mean()) for window in windows),
        )
        for seat in range(winners.shape[1])
    ]
    draws = Series(
        name="draws",
        label="draws" if len(seats) == 2 else "first place shared",
        unit="share",
        chart=CHART,
        group="seats",
        values=tuple(float(shared[window].mean()) for window in windows),
    )
    axes = _axes(metrics, np.array([numbers[window].mean() + 1.0 for window in windows]))
    return found.model_copy(update={"axes": {**found.axes, "seats": axes}, "series": (*found.series, *seats, draws)})


def _winners(log: GameLog, number: int) -> tuple[bool, ...] | None:
    try:
        scores = np.array(list(decode_record(log.get(number).payload).scores))
    except RecordRejected:
        return None
    return tuple((scores > scores.max() - TIE_TOLERANCE).tolist())


def _axes(metrics: Metrics, games: np.ndarray) -> Axes:
    """Return the places of windows by the rows of the trainer; no step and no hour without rows."""
    stored = metrics["trainer.games_ever"]
    hours = (metrics["trainer.time_s"] - (began_s(metrics) or 0.0)) / 3600.0
    return Axes(
        step=_at(games, stored, metrics.get("trainer.step", np.full(len(stored), np.nan))),
        games=tuple(games.tolist()),
        hours=_at(games, stored, hours),
    )


def _at(games: np.ndarray, stored: np.ndarray, column: np.ndarray) -> tuple[float | None, ...]:
    known = np.isfinite(stored) & np.isfinite(column)
    if not known.any():
        return (None,) * len(games)
    return tuple(np.interp(games, stored[known], column[known]).tolist())
