"""Confidence intervals for a share of points, and shares as Elo differences.

`share_interval` is for matches: its observations are groups of games from one opening, since games of a group are correlated.
`wilson` treats games as independent wins and losses; with draws it is conservative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zerofleet.strength.ratings.likelihood import histogram, misfit

__all__ = ["CHI_SQUARE_95", "Z_95", "difference_interval", "elo_from_share", "share_from_elo", "share_interval", "wilson"]

Z_95 = 1.959963984540054  # normal quantile of 97.5 %
CHI_SQUARE_95 = Z_95 * Z_95  # 95 % quantile of chi-square with one degree of freedom
TAIL_95 = 0.025  # probability on each side

BISECTIONS = 30
PRECISION = 1e-9


def elo_from_share(share: float) -> float:
    """Return the Elo difference at which `share` of the points is expected; infinite at 0 and 1."""
    if share <= 0.0:
        return -math.inf
    if share >= 1.0:
        return math.inf
    return -400.0 * math.log10(1.0 / share - 1.0)


def share_from_elo(elo: float) -> float:
    """Return the expected share of points of a player `elo` stronger than its opponent."""
    return 1.0 / (1.0 + math.pow(10.0, -elo / 400.0))


def wilson(points: float, games: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of independent games (Wilson 1927); (0, 1) without games."""
    if games == 0:
        return 0.0, 1.0
    share = points / games
    centre = share + CHI_SQUARE_95 / (2.0 * games)
    half = Z_95 * math.sqrt(share * (1.0 - share) / games + CHI_SQUARE_95 / (4.0 * games * games))
    scale = 1.0 + CHI_SQUARE_95 / games
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def share_interval(group_scores: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent group scores (float [N], in [0, 1]); (0, 1) without groups.

    The interval holds all means not rejected by the likelihood ratio (Owen 1988), so it lies in [0, 1] by construction.
    Where all N groups score alike, the ratio is far from chi-square, and the interval is the exact one: results other than
    the observed one have a share of at most 1 - 0.025^(1 / N), else N equal results would have a probability below 2.5 %
    (100 groups all won: 0.964 to 1). No other result reaches further to the end of the range than one of groups all won, or
    all lost.
    """
    if len(group_scores) == 0:
        return 0.0, 1.0
    counts, scores = histogram(group_scores)
    least = TAIL_95 ** (1.0 / len(group_scores))
    if np.count_nonzero(counts) == 1:
        score = float(group_scores[0])
        return least * score, 1.0 - least * (1.0 - score)
    mean = float(np.mean(group_scores))

    def rejected(claim: float) -> bool:
        return bool(2.0 * misfit(counts, scores, claim) > CHI_SQUARE_95)

    return min(least, _edge(mean, 0.0, rejected)), max(1.0 - least, _edge(mean, 1.0, rejected))


def difference_interval(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float]:
    """Return the interval of the first value less the second, each given as (value, low, high) (Newcombe 1998, method 10)."""
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    return a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def _edge(inside: float, outside: float, rejected: Callable[[float], bool]) -> float:
    """Return the point between a fitting mean and the end of the range at which `rejected` becomes true."""
    if abs(inside - outside) < PRECISION:
        return outside
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        if rejected(middle):
            outside = middle
        else:
            inside = middle
    return outside
