"""Ladders: champions of a run among classical players, rated together, with `random` at 0."""

from zerofleet.ladders.book import LadderBook
from zerofleet.ladders.evidence import evidence
from zerofleet.ladders.plan import LadderPlan, Match, spaced
from zerofleet.ladders.rungs import ANCHOR, default_rungs, parse_rungs

__all__ = ["ANCHOR", "LadderBook", "LadderPlan", "Match", "default_rungs", "evidence", "parse_rungs", "spaced"]
