"""Bayesian Elo: ratings of many players from the games among them, with intervals.

The model is Bradley and Terry's (1952): player i takes s(r_i - r_j) of the points from player j, with s the logistic
function; a draw counts as half a win and half a loss. Games of more players are placements with the same strengths (see
`placements`). The prior is a wide normal distribution on every rating, so that a player who won every game has a finite
rating. The mode is found by Newton's method (the log-posterior is concave); the covariance is the inverse of the negative
Hessian at the mode. Ratings are reported as differences to the anchor, which is exactly 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings.intervals import Z_95
from zerofleet.strength.ratings.placements import Placement, Round

__all__ = ["ELO_PER_NAT", "PRIOR_SD_ELO", "Rating", "Tally", "rate"]

ELO_PER_NAT = 400.0 / math.log(10.0)
PRIOR_SD_ELO = 1000.0
"""Standard deviation of the prior; random play and a strong program are about two of them apart."""

NEWTON_STEPS = 100
TOLERANCE = 1e-10  # in nats of log odds


@dataclass(frozen=True, slots=True)
class Tally:
    """Games between two players; `points` are those of `first`, a draw counting one half."""

    first: str
    second: str
    points: float
    games: int


@dataclass(frozen=True, slots=True)
class Rating:
    """Rating of a player relative to the anchor, with its 95 % interval."""

    name: str
    elo: float
    low: float
    high: float
    games: int


def rate(results: Iterable[Tally | Placement], *, anchor: str, prior_sd_elo: float = PRIOR_SD_ELO) -> list[Rating]:
    """Return the ratings of all players, strongest first; `anchor` is 0 and always included.

    Raises `ConfigurationError` for a tally with impossible points or of a player against itself.
    """
    counted = list(results)
    names = sorted({anchor, *(name for result in counted for name in _names(result))})
    evidence = _Evidence.of(counted, names)
    mode, covariance = _posterior(evidence, precision=(ELO_PER_NAT / prior_sd_elo) ** 2)
    a = names.index(anchor)
    spread = covariance.diagonal() + covariance[a, a] - 2.0 * covariance[a]
    elo = (mode - mode[a]) * ELO_PER_NAT
    half = Z_95 * ELO_PER_NAT * np.sqrt(np.maximum(spread, 0.0))
    games = Counter[str]()
    for result in counted:
        for name in _names(result):
            games[name] += result.games
    ratings = [
        Rating(n, float(elo[i]), float(elo[i] - half[i]), float(elo[i] + half[i]), games[n]) for i, n in enumerate(names)
    ]
    return sorted(ratings, key=lambda rating: (-rating.elo, rating.name))


def _names(result: Tally | Placement) -> set[str]:
    return {result.first, result.second} if isinstance(result, Tally) else set(result.players)


def _require_possible(tally: Tally) -> None:
    if tally.first == tally.second:
        raise ConfigurationError(f"{tally.first} cannot be rated by games against itself")
    if not 0.0 <= tally.points <= tally.games:
        raise ConfigurationError(f"{tally.first} against {tally.second}: {tally.points} points of {tally.games} games")


@dataclass(slots=True)
class _Evidence:
    """All results as one log-likelihood of the ratings r: linear @ r - sum of weight * log(sum of members * exp(r)).

    Rounds of two, by far the most frequent, are stored as a matrix.
    """

    linear: np.ndarray  # float64 [n]: points won, draws from a round
    duels: np.ndarray  # float64 [n, n], symmetric: rounds between row and column with one seat each
    members: np.ndarray  # float64 [R, n]: seats of each player in each other round
    weights: np.ndarray  # float64 [R]

    @classmethod
    def of(cls, results: Iterable[Tally | Placement], names: Sequence[str]) -> Self:
        index = {name: i for i, name in enumerate(names)}
        linear, duels = np.zeros(len(names)), np.zeros((len(names), len(names)))
        rounds: dict[Round, float] = {}
        for result in results:
            if isinstance(result, Tally):
                _require_possible(result)
                first, second = index[result.first], index[result.second]
                linear[first] += result.points
                linear[second] += result.games - result.points
                duels[first, second] += result.games
                duels[second, first] += result.games
                continue
            for name in result.players:
                linear[index[name]] += result.games
            for met, weight in result.rounds():
                rounds[met] = rounds.get(met, 0.0) + weight * result.games
        members = np.zeros((len(rounds), len(names)))
        for row, met in enumerate(rounds):
            for name, seats in met:
                members[row, index[name]] = seats
        return cls(linear, duels, members, np.array(list(rounds.values())))

    def slope(self, ratings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient (float64 [n]) and negative Hessian ([n, n]) of the log-likelihood."""
        expected = 1.0 / (1.0 + np.exp(ratings[None, :] - ratings[:, None]))
        gradient = self.linear - (self.duels * expected).sum(axis=1)
        curvature = self.duels * expected * (1.0 - expected)
        information = np.diag(curvature.sum(axis=1)) - curvature
        strengths = self.members * np.exp(ratings - ratings.max())
        shares = strengths / strengths.sum(axis=1, keepdims=True)  # of each round's draw
        weighted = self.weights[:, None] * shares
        gradient = gradient - weighted.sum(axis=0)
        return gradient, information + np.diag(weighted.sum(axis=0)) - shares.T @ weighted


def _posterior(evidence: _Evidence, *, precision: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode (float [n]) and covariance (float [n, n]) of the ratings, in natural units.

    `precision` is the inverse variance of the normal prior of each rating.
    """
    ratings = np.zeros(len(evidence.linear))
    for _ in range(NEWTON_STEPS):
        gradient, information = evidence.slope(ratings)
        hessian = information + precision * np.eye(len(ratings))
        step = np.linalg.solve(hessian, gradient - precision * ratings)
        # Far from the mode the logistic is flat and a full step would overshoot.
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        ratings = ratings + step
        if float(np.abs(step).max()) < TOLERANCE:
            break
    return ratings, np.linalg.inv(hessian)
