"""Matches: two players, paired openings, every seating, results that count once, and stopping rules."""

from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.lone import LoneSeat, LoneTally, lone_tally
from zerofleet.strength.matches.match import MatchOutcome, decide, play_match
from zerofleet.strength.matches.opening_file import opening_line, read_openings
from zerofleet.strength.matches.openings import Opening, draw_openings, position_key
from zerofleet.strength.matches.play import Agent, AgentMaker, MatchSettings, play_games, warm_up_rules
from zerofleet.strength.matches.scoreboard import GameResult, Scoreboard, SeatTally, Standing
from zerofleet.strength.matches.stopping import Decision, FixedGames, SequentialTest, ShareOfPoints, StoppingRule
from zerofleet.strength.matches.summary import MatchSummary, PlayerEffort, SeatSummary, summarise
from zerofleet.strength.matches.terms import MatchTerms, Pairing, Player, points, seatings

__all__ = [
    "Agent",
    "AgentMaker",
    "Decision",
    "Effort",
    "FixedGames",
    "GameResult",
    "LoneSeat",
    "LoneTally",
    "MatchOutcome",
    "MatchSettings",
    "MatchSummary",
    "MatchTerms",
    "Opening",
    "Pairing",
    "Player",
    "PlayerEffort",
    "Scoreboard",
    "SeatSummary",
    "SeatTally",
    "SequentialTest",
    "ShareOfPoints",
    "Standing",
    "StoppingRule",
    "decide",
    "draw_openings",
    "lone_tally",
    "opening_line",
    "play_games",
    "play_match",
    "points",
    "position_key",
    "read_openings",
    "seatings",
    "summarise",
    "warm_up_rules",
]
