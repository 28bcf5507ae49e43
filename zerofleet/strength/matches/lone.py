"""Results of one player alone against several of another, in games of more than two seats.

A match covers every seating of its two players, hence games of each player alone. Scores in [-1, 1] count as (score + 1) / 2
points, from 0 to 1. The *share of the points* is the lone player's points divided by the points of all players, both summed
over all games: 1 / P among P equal players, whatever the total of a game. In a game of 3, 1 and 0 points (scores 1, -1/3 and
-1) it is the share of these. The *net score* is 100 times the share of games with the best score minus the share with the
worst; a tie for either counts, and a game in which all are equal counts as neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from zerofleet.strength.matches.scoreboard import DRAW_TOLERANCE, GameResult
from zerofleet.strength.ratings import share_interval, wilson

__all__ = ["LoneSeat", "LoneTally", "lone_tally"]


@dataclass(frozen=True, slots=True)
class LoneSeat:
    """Results of a lone player on one seat."""

    seat: int
    """Counted from 1."""
    placings: tuple[int, ...]
    """Number of games by placing, best first; players with equal scores share the better placing."""
    mean_score: float
    first: float
    """Share of games with no player placed better; `first_low` and `first_high` are its 95 % interval."""
    first_low: float
    first_high: float


@dataclass(frozen=True, slots=True)
class LoneTally:
    """Results of one player alone against several of the other. Intervals are of 95 %, with groups as observations."""

    player: str
    against: str
    opponents: int
    games: int
    share: float
    """Share of the points of all players; 1 / players between equals."""
    share_low: float
    share_high: float
    net: float
    """Games with the best score minus games with the worst, per 100 games."""
    net_low: float
    net_high: float
    mean_score: float
    seats: tuple[LoneSeat, ...]


def lone_tally(results: Iterable[GameResult], names: tuple[str, str], lone: int) -> LoneTally:
    """Summarise the games in which player `lone` (0 or 1 of `names`) has a single seat; there must be one.

    `results` are those of complete groups: each seat occurs equally often, so that seat advantages cancel.
    """
    games = [result for result in results if result.seating.count(lone) == 1]
    scores = np.array([result.scores for result in games], dtype=np.float64)  # [N, P]
    seats = np.array([result.seating.index(lone) for result in games])
    groups = np.array([result.group for result in games])
    own = scores[np.arange(len(games)), seats]
    points = (scores + 1.0) / 2.0
    share, share_low, share_high = _share((own + 1.0) / 2.0, points.sum(axis=1), groups, players=scores.shape[1])
    net = _net(own, scores)
    half_net = share_interval((_group_means(net, groups) + 1.0) / 2.0)
    return LoneTally(
        player=names[lone],
        against=names[1 - lone],
        opponents=scores.shape[1] - 1,
        games=len(games),
        share=share,
        share_low=share_low,
        share_high=share_high,
        net=100.0 * float(net.mean()),
        net_low=100.0 * (2.0 * half_net[0] - 1.0),
        net_high=100.0 * (2.0 * half_net[1] - 1.0),
        mean_score=float(own.mean()),
        seats=tuple(_seat(int(seat), own[seats == seat], scores[seats == seat]) for seat in np.unique(seats)),
    )


def _share(own: np.ndarray, handed_out: np.ndarray, groups: np.ndarray, *, players: int) -> tuple[float, float, float]:
    """Return own points as a share of those handed out (float64 [N] each), with its interval.

    Linearised: the ratio of two sums varies as the mean of share + (own - share * handed_out) / mean(handed_out).
    """
    if not handed_out.sum() > 0.0:
        return 1.0 / players, 0.0, 1.0
    share = float(own.sum() / handed_out.sum())
    linear = share + (own - share * handed_out) / handed_out.mean()
    low, high = share_interval(np.clip(_group_means(linear, groups), 0.0, 1.0))
    return share, min(low, share), max(high, share)


def _net(own: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return per game 1 for the best score, -1 for the worst, 0 in between or if all are equal, float64 [N]."""
    best = own >= scores.max(axis=1) - DRAW_TOLERANCE
    worst = own <= scores.min(axis=1) + DRAW_TOLERANCE
    return np.asarray(best.astype(np.float64) - worst)


def _group_means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the mean of each group; games from one opening are one observation."""
    _, index = np.unique(groups, return_inverse=True)
    return np.asarray(np.bincount(index, values) / np.bincount(index))


def _seat(seat: int, own: np.ndarray, scores: np.ndarray) -> LoneSeat:
    better = (scores > own[:, None] + DRAW_TOLERANCE).sum(axis=1)  # players placed better
    placings: Sequence[int] = np.bincount(better, minlength=scores.shape[1]).tolist()
    low, high = wilson(placings[0], len(own))
    return LoneSeat(seat + 1, tuple(placings), float(own.mean()), placings[0] / len(own), low, high)
