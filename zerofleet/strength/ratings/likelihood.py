"""Empirical likelihood of a mean score: misfit between a histogram of scores and the hypothesis that its true mean is m.

Axes: K possible scores. The games of one group (one opening, every assignment of the players to the seats) are correlated;
the observation is the score of the *group*, and groups are independent. For two players these are the pentanomial counts of
fishtest: 0, 1/4, 1/2, 3/4, 1 of the points of a pair of games.

No assumption is made about draws or the correlation within a pair: of all distributions on the K scores with mean m, the
likeliest one represents the hypothesis. It is the observed distribution, tilted: p_i = q_i / (1 + x (a_i - m)), with x so that
the mean is m (Owen 1988, "Empirical likelihood ratio confidence intervals for a single functional"; Van den Bergh, "A practical
introduction to the GSPRT", the method of fishtest).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["PENTANOMIAL_SCORES", "histogram", "misfit"]

PENTANOMIAL_SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Share of a pair's points: two losses, a loss and a draw, one point, a win and a draw, two wins."""

REGULARISATION = 1e-3  # count of a score never observed, so that every mean in (0, 1) can be tested (fishtest's value)
NEWTON_STEPS = 60  # safeguarded by bisection, hence enough to reach the tolerance
DECIMALS = 9  # scores that differ by less are equal
TOLERANCE = 1e-13  # relative to the range of the tilt


def histogram(group_scores: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return (counts [K], scores [K]) of observed group scores (float [N], in [0, 1]).

    The support is the union of the observed scores and the five of a pair of games.
    """
    observed = np.round(np.asarray(group_scores, dtype=np.float64), DECIMALS)
    support = np.unique(np.concatenate([PENTANOMIAL_SCORES, observed]))
    counts = np.bincount(np.searchsorted(support, observed), minlength=len(support))
    return counts, support


def misfit(counts: np.ndarray, scores: np.ndarray, mean: float) -> np.ndarray:
    """Return the loss of log-likelihood (float [...]) of the hypothesis "the true mean is `mean`" against the best fit.

    `counts`: [..., K], `scores`: [K] ascending from 0 to 1, `mean` in (0, 1). Non-negative; 0 at the observed mean.
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
    left = np.arange(len(rows))  # rows not yet converged; most converge in a few steps
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
