"""Bayesian Elo: ratings of many players from the games among them, with intervals.

The model is Bradley and Terry's (1952): player i takes s(r_i - r_j) of the points from player j, with s the logistic
function; a draw counts as half a win and half a loss. The prior is a wide normal distribution on every rating, so that a
player who won every game still has a finite one. The mode is found by Newton's method (the posterior is concave), and the
inverse of the negative Hessian there is the covariance. Differences to the anchor are what is reported: the anchor
stands at 0 exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.ratings.intervals import Z_95

__all__ = ["ELO_PER_NAT", "PRIOR_SD_ELO", "Rating", "Tally", "rate"]

ELO_PER_NAT = 400.0 / math.log(10.0)
PRIOR_SD_ELO = 1000.0
"""Standard deviation of the prior: random play and a strong program are about two of these apart."""

NEWTON_STEPS = 100
TOLERANCE = 1e-10  # in units of natural logarithms of odds


@dataclass(frozen=True, slots=True)
class Tally:
    """Games between two players; `points` are the first one's, a draw counts one half."""

    first: str
    second: str
    points: float
    games: int


@dataclass(frozen=True, slots=True)
class Rating:
    """A player's rating relative to the anchor, with its 95 % interval."""

    name: str
    elo: float
    low: float
    high: float
    games: int


def rate(tallies: Iterable[Tally], *, anchor: str, prior_sd_elo: float = PRIOR_SD_ELO) -> list[Rating]:
    """Return the ratings of everybody who played, strongest first; `anchor` is 0 and always among them.

    Raises `ConfigurationError` for a tally with impossible points or of a player against itself.
    """
    counted = list(tallies)
    names = sorted({anchor, *(t.first for t in counted), *(t.second for t in counted)})
    index = {name: i for i, name in enumerate(names)}
    wins = np.zeros((len(names), len(names)))  # points of the row's player against the column's
    for tally in counted:
        _require_possible(tally)
        i, j = index[tally.first], index[tally.second]
        wins[i, j] += tally.points
        wins[j, i] += tally.games - tally.points
    mode, covariance = _posterior(wins, precision=(ELO_PER_NAT / prior_sd_elo) ** 2)
    a = index[anchor]
    spread = covariance.diagonal() + covariance[a, a] - 2.0 * covariance[a]
    elo = (mode - mode[a]) * ELO_PER_NAT
    half = Z_95 * ELO_PER_NAT * np.sqrt(np.maximum(spread, 0.0))
    games = (wins + wins.T).sum(axis=1)
    ratings = [
        Rating(n, float(elo[i]), float(elo[i] - half[i]), float(elo[i] + half[i]), int(games[i])) for n, i in index.items()
    ]
    return sorted(ratings, key=lambda rating: (-rating.elo, rating.name))


def _require_possible(tally: Tally) -> None:
    if tally.first == tally.second:
        raise ConfigurationError(f"{tally.first} cannot be rated by games against itself")
    if not 0.0 <= tally.points <= tally.games:
        raise ConfigurationError(f"{tally.first} against {tally.second}: {tally.points} points of {tally.games} games")


def _posterior(wins: np.ndarray, *, precision: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode (float [n]) and covariance (float [n, n]) of the ratings, in natural units.

    `wins`: points of row against column [n, n]; `precision` of the normal prior of each rating.
    """
    count = len(wins)
    ratings = np.zeros(count)
    played = wins + wins.T
    for _ in range(NEWTON_STEPS):
        expected = 1.0 / (1.0 + np.exp(ratings[None, :] - ratings[:, None]))
        gradient = (wins - played * expected).sum(axis=1) - precision * ratings
        curvature = played * expected * (1.0 - expected)
        hessian = np.diag(curvature.sum(axis=1) + precision) - curvature
        step = np.linalg.solve(hessian, gradient)
        # Far from the mode the logistic is flat and a full step would overshoot.
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        ratings = ratings + step
        if float(np.abs(step).max()) < TOLERANCE:
            break
    return ratings, np.linalg.inv(hessian)
