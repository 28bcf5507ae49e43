"""Heuristic search on the rhombus of Chinese Checkers: cell values, NegaScout and four move generators.

agent         agent: options, budgets, tie breaks
pooled        agent that searches the few best moves by a model
root          iterations over the moves of a position
search        minimax, alpha-beta and NegaScout below the root
evaluation    cell values and feature weights, read from data files
features      the five features
homing        shortest way home, once the sides have passed each other
listing       packed and ordered move lists
generation    hop generation, four generators
cells         board tables for the generators
channels      incremental hop generation
table         transposition table
work          buffers of the search
"""

from __future__ import annotations

from zerofleet.agents.by_game.rhombus.agent import RhombusSearchAgent, SearchOptions, from_spelling, repeats_itself
from zerofleet.agents.by_game.rhombus.pooled import from_spelling as pool_from_spelling
from zerofleet.agents.by_game.rhombus.pooled import repeats_itself as pool_repeats_itself

__all__ = [
    "RhombusSearchAgent",
    "SearchOptions",
    "from_spelling",
    "pool_from_spelling",
    "pool_repeats_itself",
    "repeats_itself",
]
