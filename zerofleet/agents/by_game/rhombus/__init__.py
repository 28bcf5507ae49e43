"""Heuristic search on the rhombus of Chinese Checkers: values of cells, NegaScout, and moves found in several ways.

agent         the player: options, budgets, ties
root          iterations over the moves of a position
search        minimax, alpha-beta and NegaScout below the root
evaluation    values of the cells and weights of the features, read from data
features      the five features
listing       moves in the order in which they are tried
generation    where hops lead, found in four ways
channels      what of that is kept from position to position
table         transposition table
work          the room all this writes to
plain         the same in plain Python, for comparison
trials        the generators side by side in random games
"""

from __future__ import annotations

from zerofleet.agents.by_game.rhombus.agent import RhombusSearchAgent, SearchOptions, from_spelling

__all__ = ["RhombusSearchAgent", "SearchOptions", "from_spelling"]
