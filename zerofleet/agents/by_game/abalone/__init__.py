"""Abalone players: evaluations with weights as data, and a search with switchable components."""

from __future__ import annotations

from zerofleet.agents.by_game.abalone.agent import AbaloneSearchAgent, AbaloneSearchOptions, from_spelling, repeats_itself
from zerofleet.agents.by_game.abalone.thinking import Searched, SearchOptions, think

__all__ = [
    "AbaloneSearchAgent",
    "AbaloneSearchOptions",
    "SearchOptions",
    "Searched",
    "from_spelling",
    "repeats_itself",
    "think",
]
