"""Sequential test for promotion: GSPRT on pairs of games, with a bet on a large difference.

After every pair the test computes the log-likelihood ratio of two hypotheses, "the candidate is `elo1` stronger" and "`elo0`
stronger", each at its maximum likelihood (see `likelihood`). It stops when the evidence leaves (log beta / (1 - alpha),
log (1 - beta) / alpha) (Wald 1945): a candidate worth `elo0` passes with probability at most alpha, one worth `elo1` fails with
probability at most beta, both approximately; tests check this by simulation. Unlike a fixed-size test, it is valid when
evaluated after every pair.

The ratio alone is slow where the difference is far outside the two hypotheses: it gains no more from a clean sweep than a
candidate of exactly `elo1` would. So a fifth of the evidence is a bet against the hypothesis to be rejected, whatever the true
difference (see `betting`); a mixture of likelihood ratios is one, and keeps the bounds.

Elo here is logistic: `elo` means an expected share of 1 / (1 + 10^(-elo/400)) of the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings.betting import log_capital
from zerofleet.strength.ratings.intervals import share_from_elo
from zerofleet.strength.ratings.likelihood import misfit

__all__ = ["BET_SHARE", "Sprt", "Verdict"]

BET_SHARE = 0.2
"""Share of the bet in the evidence; by simulation, see docs/decisions/0005-gate-statistics.md."""


MOST_ELO = 4000
"""Largest difference of a hypothesis, a loss in ten thousand million games; far beyond it the share of points rounds to 1."""


class Verdict(Enum):
    """State of the test."""

    CONTINUE = "continue"
    STRONGER = "stronger"
    """The evidence reached the upper bound: `elo0` is rejected."""
    NOT_STRONGER = "not stronger"
    """The evidence reached the lower bound: `elo1` is rejected."""


@dataclass(frozen=True, slots=True)
class Sprt:
    """Test of elo1 against elo0 with error probabilities alpha (false pass) and beta (false fail)."""

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not -MOST_ELO <= self.elo0 < self.elo1 <= MOST_ELO:
            raise ConfigurationError(
                f"the sequential test needs elo0 < elo1, both from -{MOST_ELO} to {MOST_ELO}, got {self.elo0} and {self.elo1}"
            )
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

    def evidence(self, counts: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the evidence for (positive) or against the candidate (float [...]), to be compared with the bounds.

        Arguments as in `log_likelihood_ratio`, whose sign it has. It is the logarithm of a likelihood ratio whose alternative
        is a mixture: the other hypothesis, and with share `BET_SHARE` any difference beyond the rejected one. 0 where the
        mixture is less likely than the rejected hypothesis.
        """
        ratio = self.log_likelihood_ratio(counts, scores)
        above = log_capital(counts, scores, share_from_elo(self.elo0), side="above")
        below = log_capital(counts, scores, share_from_elo(self.elo1), side="below")
        found: np.ndarray = np.where(
            ratio >= 0.0, np.maximum(_mixture(ratio, above), 0.0), -np.maximum(_mixture(-ratio, below), 0.0)
        )
        return found

    def verdict(self, evidence: float) -> Verdict:
        """Return the verdict for `evidence`."""
        if evidence >= self.upper:
            return Verdict.STRONGER
        if evidence <= self.lower:
            return Verdict.NOT_STRONGER
        return Verdict.CONTINUE

    def conclusion(self, verdict: Verdict) -> str:
        """Return the conclusion of a verdict in words: the rejected hypothesis bounds the difference from one side."""
        if verdict is Verdict.CONTINUE:
            return "undecided"
        if verdict is Verdict.STRONGER:
            return "stronger" if self.elo0 == 0 else f"{'not weaker' if self.elo0 < 0 else 'stronger'} than {self.elo0:+g} Elo"
        return "weaker" if self.elo1 == 0 else f"{'weaker' if self.elo1 < 0 else 'not stronger'} than {self.elo1:+g} Elo"


def _mixture(log_ratio: np.ndarray, log_bet: np.ndarray) -> np.ndarray:
    """Return the logarithm of the weighted mean of a likelihood ratio and a bet's capital."""
    mixed: np.ndarray = np.logaddexp(math.log1p(-BET_SHARE) + log_ratio, math.log(BET_SHARE) + log_bet)
    return mixed
