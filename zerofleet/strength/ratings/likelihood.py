"""Empirical likelihood of a mean score: how badly a histogram of scores fits the claim that its true mean is m.

Axes: K possible scores. The games of one group (one opening, every assignment of the players to the seats) share their
luck, so the *group's* score is the observation and groups are independent. For two players these are the pentanomial
counts of fishtest: 0, 1/4, 1/2, 3/4, 1 of the points of a pair of games.

Nothing is assumed about draws or about how the two games of a pair hang together: of all distributions on the K scores
with mean m, the likeliest one speaks for the claim. It is the observed one, tilted: p_i = q_i / (1 + x (a_i - m)), with x
such that the mean is m (Owen 1988, "Empirical likelihood ratio confidence intervals for a single functional"; Van den
Bergh, "A practical introduction to the GSPRT", which fishtest follows).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["PENTANOMIAL_SCORES", "histogram", "misfit"]

PENTANOMIAL_SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Share of a pair's points: nothing, a draw, a point, a win and a draw, two wins."""

REGULARISATION = 1e-3  # count given to a score never seen, so that every mean in (0, 1) can be tested (fishtest's value)
NEWTON_STEPS = 60  # safeguarded by bisection, so this reaches the tolerance whatever Newton does
DECIMALS = 9  # scores that differ less are the same score
TOLERANCE = 1e-13  # of the range in which the tilt lies


def histogram(group_scores: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return (counts [K], scores [K]) of observed group scores (float [N], in [0, 1]).

    The support holds every observed score and the five of a pair of games.
    """
    observed = np.round(np.asarray(group_scores, dtype=np.float64), DECIMALS)
    support = np.unique(np.concatenate([PENTANOMIAL_SCORES, observed]))
    counts = np.bincount(np.searchsorted(support, observed), minlength=len(support))
    return counts, support


def misfit(counts: np.ndarray, scores: np.ndarray, mean: float) -> np.ndarray:
    """Return the log-likelihood (float [...]) that the claim "the true mean is `mean`" loses against the best fit.

    `counts`: [..., K], `scores`: [K] ascending from 0 to 1, `mean` in (0, 1). At least 0; 0 where the mean is the
    observed one.
    """
    weights = np.where(counts == 0, REGULARISATION, np.asarray(counts, dtype=np.float64))
    total = weights.sum(axis=-1)
    shares = weights / total[..., None]
    distance = np.asarray(scores, dtype=np.float64) - mean  # b_i; 1 + x b_i must stay positive
    tilt = _solve_tilt(shares, distance, low=-1.0 / distance[-1], high=-1.0 / distance[0])
    loss: np.ndarray = total * (shares * np.log1p(tilt[..., None] * distance)).sum(axis=-1)
    return loss


def _solve_tilt(shares: np.ndarray, distance: np.ndarray, *, low: float, high: float) -> np.ndarray:
    """Return x in (low, high) with sum_i q_i b_i / (1 + x b_i) = 0; the sum falls with x, from +inf to -inf."""
    rows = shares.reshape(-1, shares.shape[-1])
    found = np.zeros(len(rows))
    left = np.arange(len(rows))  # rows that have not settled; most do after a few steps
    x, lower, upper = found.copy(), np.full(len(rows), low), np.full(len(rows), high)
    for _ in range(NEWTON_STEPS):
        terms = distance / (1.0 + x[:, None] * distance)
        weighted = rows * terms
        slope = weighted.sum(axis=-1)
        lower = np.where(slope > 0.0, x, lower)
        upper = np.where(slope > 0.0, upper, x)
        proposal = x + slope / (weighted * terms).sum(axis=-1)
        inside = (proposal > lower) & (proposal < upper)
        following = np.where(inside, proposal, 0.5 * (lower + upper))
        moving = np.abs(following - x) > TOLERANCE * (high - low)
        x = following
        if not moving.all():
            found[left] = x
            rows, left, x, lower, upper = rows[moving], left[moving], x[moving], lower[moving], upper[moving]
            if not len(left):
                break
    found[left] = x
    return found.reshape(shares.shape[:-1])
