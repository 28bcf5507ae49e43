"""Monte-Carlo tree search for blocks of games, compiled and resumable; see `zerofleet.search.block`."""

from zerofleet.search.block import Leaves, SearchBlock, SearchCounters
from zerofleet.search.driver import step
from zerofleet.search.kernel import EXTERNAL
from zerofleet.search.played import PlayedGame, RootAnalysis, SearchedMove
from zerofleet.search.settings import SearchSettings

__all__ = [
    "EXTERNAL",
    "Leaves",
    "PlayedGame",
    "RootAnalysis",
    "SearchBlock",
    "SearchCounters",
    "SearchSettings",
    "SearchedMove",
    "step",
]
