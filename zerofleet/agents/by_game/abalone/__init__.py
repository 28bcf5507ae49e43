"""Players of Abalone: evaluations with their weights as data, and a search whose every part can be left out."""

from __future__ import annotations

from zerofleet.agents.by_game.abalone.agent import AbaloneSearchAgent, AbaloneSearchOptions, from_spelling
from zerofleet.agents.by_game.abalone.thinking import Searched, SearchOptions, think

__all__ = ["AbaloneSearchAgent", "AbaloneSearchOptions", "SearchOptions", "Searched", "from_spelling", "think"]
