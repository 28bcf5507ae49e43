"""Heuristic search on the rhombus of Chinese Checkers: cell values, NegaScout and four move generators.

agent         agent: options, budgets, tie breaks
root          iterations over the moves of a position
search        minimax, alpha-beta and NegaScout below the root
evaluation    cell values and feature weights, read from data files
features      the five features
listing       packed and ordered move lists
generation    hop generation, four generators
cells         board tables for the generators
channels      incremental hop generation
table         transposition table
work          buffers of the search
"""

from __future__ import annotations

from zerofleet.agents.by_game.rhombus.agent import RhombusSearchAgent, SearchOptions, from_spelling

__all__ = ["RhombusSearchAgent", "SearchOptions", "from_spelling"]
