"""Sequential test for promotion: GSPRT on pairs of games.

After every pair the test computes the log-likelihood ratio of two hypotheses, "the candidate is `elo1` stronger" and "`elo0`
stronger", each at its maximum likelihood (see `likelihood`). It stops when the ratio leaves (log beta / (1 - alpha),
log (1 - beta) / alpha) (Wald 1945): a candidate worth `elo0` passes with probability at most alpha, one worth `elo1` fails with
probability at most beta, both approximately; tests check this by simulation. Unlike a fixed-size test, it is valid when
evaluated after every pair.

Elo here is logistic: `elo` means an expected share of 1 / (1 + 10^(-elo/400)) of the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings.intervals import share_from_elo
from zerofleet.strength.ratings.likelihood import misfit

__all__ = ["Sprt", "Verdict"]


class Verdict(Enum):
    """State of the test."""

    CONTINUE = "continue"
    STRONGER = "stronger"
    """The ratio reached the upper bound: accept `elo1`."""
    NOT_STRONGER = "not stronger"
    """The ratio reached the lower bound: accept `elo0`."""


@dataclass(frozen=True, slots=True)
class Sprt:
    """Test of elo1 against elo0 with error probabilities alpha (false pass) and beta (false fail)."""

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not self.elo0 < self.elo1:
            raise ConfigurationError(f"the sequential test needs elo0 < elo1, got {self.elo0} and {self.elo1}")
        if not (0.0 < self.alpha < 0.5 and 0.0 < self.beta < 0.5):
            raise ConfigurationError(f"alpha and beta must be in (0, 0.5), got {self.alpha} and {self.beta}")

    @property
    def lower(self) -> float:
        """Bound at which the candidate fails."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """Bound at which the candidate passes."""
        return math.log((1.0 - self.beta) / self.alpha)

    def log_likelihood_ratio(self, counts: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return log L(elo1) / L(elo0) (float [...]) of histograms `counts` [..., K] over the group scores `scores` [K]."""
        claim0, claim1 = share_from_elo(self.elo0), share_from_elo(self.elo1)
        ratio: np.ndarray = misfit(counts, scores, claim0) - misfit(counts, scores, claim1)
        return ratio

    def verdict(self, log_likelihood_ratio: float) -> Verdict:
        """Return the verdict for a ratio."""
        if log_likelihood_ratio >= self.upper:
            return Verdict.STRONGER
        if log_likelihood_ratio <= self.lower:
            return Verdict.NOT_STRONGER
        return Verdict.CONTINUE
