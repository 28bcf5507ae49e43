"""Ratings: intervals of match results, the sequential test for promotion, and Bayesian Elo for any number of players."""

from zerofleet.strength.ratings.elo import Rating, Tally, rate
from zerofleet.strength.ratings.intervals import difference_interval, elo_from_share, share_from_elo, share_interval, wilson
from zerofleet.strength.ratings.likelihood import PENTANOMIAL_SCORES, histogram
from zerofleet.strength.ratings.placements import Placement
from zerofleet.strength.ratings.sprt import Sprt, Verdict

__all__ = [
    "PENTANOMIAL_SCORES",
    "Placement",
    "Rating",
    "Sprt",
    "Tally",
    "Verdict",
    "difference_interval",
    "elo_from_share",
    "histogram",
    "rate",
    "share_from_elo",
    "share_interval",
    "wilson",
]
