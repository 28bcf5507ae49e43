"""Figures on the difference of two models in the same positions: divergence and distance of policies, gap of values, means.

Axes: N positions, L maximum legal actions. Values are in [-1, 1], in the view of the player to move.
"""

from __future__ import annotations

import numpy as np

from zerofleet.library.values import Value

__all__ = ["MeanFigure", "divergence", "mean_figure", "normalised", "total_variation"]

SMALLEST = 2.0**-24  # smallest positive float16: a prior of 0 in an answer is below it, not impossible
Z_95 = 1.959964  # two-sided 95 % of the normal distribution


class MeanFigure(Value):
    """Mean over positions."""

    mean: float
    low: float | None
    """Lower end of its 95 % interval, in which the positions of one game count as dependent; None for a single game or a line
    of moves, which are no sample."""
    high: float | None
    """Upper end."""


def normalised(policy: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Return policies float64 [N, L] that sum to 1 over the legal actions (int16 [N, L]), from float16 answers."""
    listed = legal >= 0
    raised = np.where(listed, policy.astype(np.float64) + SMALLEST, 0.0)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def divergence(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the Kullback-Leibler divergence of `first` from `second` in nats, float64 [N]; both from `normalised`."""
    listed = first > 0
    ratio = np.where(listed, first, 1.0) / np.where(listed, second, 1.0)
    return np.asarray(np.maximum(0.0, (first * np.log(ratio)).sum(axis=1)))


def total_variation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the total variation distance of policies, float64 [N] in [0, 1]; both from `normalised`."""
    return np.asarray(np.abs(first - second).sum(axis=1) / 2)


def mean_figure(
    numbers: np.ndarray, group: np.ndarray, *, is_sample: bool, within: tuple[float, float] = (-np.inf, np.inf)
) -> MeanFigure:
    """Return the mean of numbers [N], all `within` bounds, with the interval over the games `group` (int64 [N]) as clusters."""
    mean = float(numbers.mean())
    _, places = np.unique(group, return_inverse=True)
    clusters = int(places.max()) + 1
    if not is_sample or clusters < 2:
        return MeanFigure(mean=mean, low=None, high=None)
    sums = np.bincount(places, weights=numbers - mean)
    error = float(np.sqrt((sums**2).sum() * clusters / (clusters - 1)) / len(numbers))
    low, high = max(within[0], mean - Z_95 * error), min(within[1], mean + Z_95 * error)
    return MeanFigure(mean=mean, low=low, high=high)
