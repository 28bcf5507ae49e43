"""Ladders: joint ratings of the champions of a run and classical players, with `random` at 0."""

from zerofleet.strength.ladders.book import LadderBook
from zerofleet.strength.ladders.evidence import evidence
from zerofleet.strength.ladders.plan import LadderPlan, Match, spaced
from zerofleet.strength.ladders.rungs import ANCHOR, default_rungs, parse_rungs

__all__ = ["ANCHOR", "LadderBook", "LadderPlan", "Match", "default_rungs", "evidence", "parse_rungs", "spaced"]
