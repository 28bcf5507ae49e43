"""Results of self-play by seat over the course of a run, from an even sample of its stored games."""

from __future__ import annotations

import numpy as np

from zerofleet.contracts.records import decode_record
from zerofleet.errors import RecordRejected
from zerofleet.library.values import Value
from zerofleet.storage.game_log import GameLog

__all__ = ["SAMPLED_GAMES", "SeatResults", "seat_results"]

SAMPLED_GAMES = 2000
PERIODS = 20
TIE_TOLERANCE = 1e-6  # scores are float32 sums


class SeatResults(Value):
    """Share of the games that each seat won alone, over periods of equally many games."""

    games: tuple[float, ...]
    """Number of the middle game of each period, of all games ever stored."""
    won: tuple[tuple[float, ...], ...]
    """By seat, then by period: share of the sampled games whose highest score that seat alone has."""
    tied: tuple[float, ...]
    """By period: share of the sampled games whose highest score several seats share; draws, for two players."""
    sampled: int
    """Number of games that were read."""


def seat_results(log: GameLog, *, sample: int = SAMPLED_GAMES, periods: int = PERIODS) -> SeatResults:
    """Return the results of at most `sample` games, evenly spread over those that are stored; damaged ones are left out."""
    numbers: list[int] = []
    if log.end_index > log.start_index:
        numbers = np.unique(np.linspace(log.start_index, log.end_index - 1, sample).astype(np.int64)).tolist()
    winners: list[tuple[int, int]] = []  # number of a game, and the seat that won it; -1 for a tie
    seats = 0
    for number in numbers:
        try:
            scores = np.array(list(decode_record(log.get(number).payload).scores))
        except RecordRejected:
            continue
        best = np.flatnonzero(scores > scores.max() - TIE_TOLERANCE)
        seats = max(seats, len(scores))
        winners.append((number, int(best[0]) if len(best) == 1 else -1))
    parts = np.array_split(np.array(winners), min(periods, len(winners))) if winners else []
    return SeatResults(
        games=tuple(float(part[:, 0].mean()) for part in parts),
        won=tuple(tuple(float((part[:, 1] == seat).mean()) for part in parts) for seat in range(seats)),
        tied=tuple(float((part[:, 1] == -1).mean()) for part in parts),
        sampled=len(winners),
    )
