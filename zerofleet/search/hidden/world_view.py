"""Statistics of a searched root over the worlds of its simulations, for pages that show why a move was chosen.

The worlds themselves hold invented hands, so none leaves this module: only numbers and results of `outcome_name` do,
the optional method of a game that names the public outcome of a turn.

Axes: n legal actions, N nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from games.core import Game, State
from zerofleet.search.arena import Arena
from zerofleet.search.hidden.worlds import Worlds
from zerofleet.search.tree import ROOT

__all__ = ["GAME_ENDS", "Outcome", "WorldStatistics", "view_worlds"]

GAME_ENDS = "the game ends"

Namer = Callable[[State, State, int], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Public outcome of a move, in some of the worlds."""

    name: str
    visits: int
    """Simulations with this outcome."""
    value: float
    """Mean value in [-1, 1] of those simulations, for the searcher."""


@dataclass(frozen=True, slots=True)
class WorldStatistics:
    """Root of a search with hidden information, over its worlds. Values are for the searcher."""

    worlds: int  # number of sampled worlds; 1 where all simulations share a forecast
    spreads: np.ndarray  # float32 [n], standard deviation of the value over the worlds of each move; nan for fewer than two
    outcomes: tuple[tuple[Outcome, ...], ...]  # of each move, the most frequent first; empty without `outcome_name`


def view_worlds(game: Game, arena: Arena, worlds: Worlds, slot: int) -> WorldStatistics:
    """Return the statistics of a slot's root, which must be evaluated."""
    root = arena.nodes[slot, ROOT]
    first, count = int(root["edge_start"]), int(root["edge_count"])
    visits = arena.edges[slot]["visits"][first : first + count].astype(np.int64)
    samples = len(worlds.moments[slot]) > 0
    spreads = np.full(count, np.nan, dtype=np.float32)
    if samples:
        total, squares = worlds.moments[slot, :count, 0], worlds.moments[slot, :count, 1]
        mean = total / np.maximum(visits, 1)
        deviation = np.sqrt(np.maximum(squares / np.maximum(visits, 1) - mean * mean, 0.0))
        spreads = np.where(visits > 1, deviation, np.nan).astype(np.float32)
    namer = getattr(game, "outcome_name", None)
    outcomes = ((),) * count if namer is None else _outcomes(arena, slot, namer)
    return WorldStatistics(worlds=int(visits.sum()) if samples else 1, spreads=spreads, outcomes=outcomes)


def _outcomes(arena: Arena, slot: int, namer: Namer) -> tuple[tuple[Outcome, ...], ...]:
    """Return the outcomes of the root's moves: those of the nodes below it, and the simulations that ended the game."""
    nodes, edges = arena.nodes[slot][: int(arena.slots[slot]["nodes"])], arena.edges[slot]
    root, states = nodes[ROOT], arena.states[slot]
    viewer, first, count = int(root["to_move"]), int(root["edge_start"]), int(root["edge_count"])
    sums = np.concatenate(([0.0], np.cumsum(edges["value"][: int(arena.slots[slot]["edges"]), viewer], dtype=np.float64)))
    found: list[dict[str, tuple[int, float]]] = [{} for _ in range(count)]
    for index in np.flatnonzero((nodes["parent"] == ROOT) & (nodes["visits"] > 0)).tolist():
        node = nodes[index]
        start, own, visits = int(node["edge_start"]), int(node["edge_count"]), int(node["visits"])
        value = float(node["value"][viewer])
        total = value + sums[start + own] - sums[start] if own else value * visits
        _add(found[int(node["parent_edge"]) - first], namer(states[ROOT], states[index], viewer), visits, float(total))
    for place, named in enumerate(found):
        edge = edges[first + place]
        ended = int(edge["visits"]) - sum(visits for visits, _ in named.values())
        if ended:
            _add(named, GAME_ENDS, ended, float(edge["value"][viewer]) - sum(total for _, total in named.values()))
    return tuple(_ranked(named) for named in found)


def _add(named: dict[str, tuple[int, float]], name: str, visits: int, total: float) -> None:
    before = named.get(name, (0, 0.0))
    named[name] = (before[0] + visits, before[1] + total)


def _ranked(named: dict[str, tuple[int, float]]) -> tuple[Outcome, ...]:
    rows = sorted(named.items(), key=lambda row: (-row[1][0], row[0]))
    return tuple(Outcome(name, visits, min(1.0, max(-1.0, total / visits))) for name, (visits, total) in rows)
