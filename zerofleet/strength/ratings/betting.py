"""Betting test of a mean score: capital of a player who bets against the hypothesis "the true mean is m".

Axes: K possible scores, J bets. A bet of fraction c on "the mean is larger" multiplies the capital by 1 + (c / m) (a_i - m) at
the score a_i, and one on "smaller" by 1 - (c / (1 - m)) (a_i - m). If the true mean is at most m (at least m), no bet gains on
average whatever the distribution of the scores, so the capital is a non-negative supermartingale: it ever reaches 1 / p with
probability at most p (Ville 1939; Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting").
This holds from the first observation on and for any variance, draws or skew, where asymptotic tests have to be simulated.

The largest capital over all fixed fractions is the exponential of `misfit`, the empirical likelihood: a bet is its honest form,
which does not choose the fraction after the result is known.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

__all__ = ["FRACTIONS", "log_capital"]

FRACTIONS = (0.5, 0.9)
"""Staked fractions of the largest possible bet; the capital is divided equally. Nine tenths wins soonest after a clean sweep,
one half survives some lost pairs. By simulation: docs/decisions/0005-gate-statistics.md."""


def log_capital(counts: np.ndarray, scores: np.ndarray, mean: float, *, side: Literal["above", "below"]) -> np.ndarray:
    """Return the logarithm of the capital (float [...]) after bets that the true mean is `side` of `mean`.

    `counts`: [..., K], `scores`: [K] in [0, 1], `mean` in (0, 1). The order of the observations does not matter.
    """
    largest = 1.0 / mean if side == "above" else -1.0 / (1.0 - mean)
    distance = np.asarray(scores, dtype=np.float64) - mean
    gains = np.log1p(np.outer(distance, np.multiply(largest, FRACTIONS)))  # [K, J]
    capital: np.ndarray = np.logaddexp.reduce(counts @ gains, axis=-1) - math.log(len(FRACTIONS))
    return capital
