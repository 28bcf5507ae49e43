"""Ratings centred on their mean, for tournaments without an anchor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zerofleet.strength.ratings import Placement, Rating, Tally, rate
from zerofleet.strength.ratings.intervals import Z_95

__all__ = ["centred"]


def centred(evidence: Sequence[Tally | Placement], names: Sequence[str]) -> list[Rating]:
    """Return ratings with mean 0, strongest first, with 95 % intervals of the difference to the mean.

    Rating with each player in turn as anchor gives the variance D of every difference. Since the distance of a point to the
    centroid of n points follows from all pairwise distances, var(r_i - mean) = sum_k D_ik / n - sum_kl D_kl / (2 n^2).
    """
    anchored = [{rating.name: rating for rating in rate(evidence, anchor=name)} for name in names]
    elo = np.array([anchored[0][name].elo for name in names])
    halves = np.array([[from_one[name].high - from_one[name].elo for name in names] for from_one in anchored])
    variance = (halves / Z_95) ** 2  # of differences [n, n]
    own = np.maximum(variance.mean(axis=0) - variance.mean() / 2.0, 0.0)
    half = Z_95 * np.sqrt(own)
    centre = elo - elo.mean()
    made = [
        replace(anchored[0][name], elo=float(centre[i]), low=float(centre[i] - half[i]), high=float(centre[i] + half[i]))
        for i, name in enumerate(names)
    ]
    return sorted(made, key=lambda rating: (-rating.elo, rating.name))
