"""PUCT selection, forced playouts and target pruning.

Sources: Silver et al. 2018 (AlphaZero), pseudocode; Wu 2019 (KataGo), section 3.2; first-play urgency as in Leela Zero.
All values here are for the player to move at the node.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from games.compiled import inlined, lean
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.proof import may_play
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import OPEN, ROOT, wide

__all__ = ["exploration_table", "forced_visits", "mean_value", "prune_forced", "select_edge", "settled_mean"]


def exploration_table(settings: SearchSettings, most: int) -> np.ndarray:
    """Return the factor of `prior / (1 + n)` for a node with 0 .. `most` visits (including flights), float64 [most + 1].

    For a node with N visits it is c(N) * sqrt(N), or 1 if literal. Compiled code reads it from this table
    (`zerofleet.search.arena.Arena.exploration`), which takes less time than a logarithm and a root for each node of a descent.
    """
    return _factors(settings.exploration, settings.puct_init, settings.puct_base, most).copy()


@lru_cache(maxsize=8)  # a search with a budget of time allocates a block with a large table for each move
def _factors(term: str, init: float, base: float, most: int) -> np.ndarray:
    if term == "literal":
        return np.ones(most + 1)
    return np.array([(init + math.log((1.0 + n + base) / base)) * math.sqrt(n) for n in range(most + 1)])


@inlined
def mean_value(edge: Any, player: int, virtual_loss: float) -> float:
    """Return the mean value of an edge with visits or flights for `player`; each flight counts as `virtual_loss` losses."""
    flight = edge.flight
    return (edge.value[player] - virtual_loss * flight) / (edge.visits + flight)  # type: ignore[no-any-return]


@inlined
def settled_mean(edge: Any, player: int) -> float:
    """Return the mean value of a visited edge for `player`, without flights."""
    return edge.value[player] / edge.visits  # type: ignore[no-any-return]


@inlined
def forced_visits(settings: CompiledSettings, prior: float, children_visits: int) -> float:
    """Return the minimal number of visits of a visited root child: sqrt(k P N) (Wu 2019, 3.2)."""
    return math.sqrt(settings.forced_playouts * prior * children_visits)


@inlined
def select_edge(nodes: Any, edges: Any, index: int, settings: CompiledSettings, exploration: np.ndarray, force: bool) -> int:
    """Return the edge that PUCT selects at an expanded node, among those that no proof rules out; ties go to the lower action.

    An unvisited edge has the node's mean value minus `fpu_reduction * sqrt(visited prior mass)`, both without the edges ruled
    out, or 0 with the literal exploration term. Unvisited edges differ in prior only, so the best of them has the largest prior
    and one pass suffices. With `force`, a root edge below its forced visits is selected first.
    """
    node = nodes[index]
    player = node.to_move
    factor = exploration[node.visits + node.flight]
    first = node.edge_start
    total = float(node.value[player])
    mass = 0.0
    ruled_out = 0  # visits
    best, best_score = -1, -np.inf
    fresh, fresh_prior = -1, -1.0
    for e in range(first, first + node.edge_count):
        edge = edges[e]
        if edge.proof != OPEN:
            ruled_out += edge.visits
            continue
        count = edge.visits + edge.flight
        prior = edge.prior
        if count == 0:
            if prior > fresh_prior:
                fresh, fresh_prior = e, prior
            continue
        mass += prior
        total += edge.value[player]
        if force and count < forced_visits(settings, prior, node.visits + node.flight - 1):
            return e
        score = mean_value(edge, player, settings.virtual_loss) + factor * prior / (1.0 + count)
        if score > best_score:
            best, best_score = e, score
    if fresh < 0:
        return best
    urgency = 0.0
    if not settings.literal:
        urgency = total / max(1, node.visits - ruled_out) - settings.fpu_reduction * math.sqrt(mass)
    fresh_score = urgency + factor * fresh_prior
    if fresh_score > best_score or (fresh_score == best_score and fresh < best):
        return fresh
    return best


@lean
def prune_forced(nodes: Any, edges: Any, settings: CompiledSettings, exploration: np.ndarray, weights: np.ndarray) -> None:
    """Write root visits without forced playouts into `weights` (float64 [>= edges of the root]).

    Every edge but the most visited loses up to its forced visits while its PUCT score with fewer visits stays below that of
    the most visited one; edges left with a single visit are dropped (Wu 2019, 3.2). An edge that may not be played has none.
    """
    root = nodes[ROOT]
    player = wide(root.to_move)
    first, count = root.edge_start, root.edge_count
    best, most = first, 0
    for i in range(count):
        weights[i] = 0.0
        if edges[first + i].visits > most and may_play(nodes, edges, first + i):
            best, most = first + i, edges[first + i].visits
    if most == 0:
        return
    factor = exploration[root.visits]
    limit = settled_mean(edges[best], player) + factor * edges[best].prior / (1.0 + edges[best].visits)
    for i in range(count):
        edge = edges[first + i]
        if edge.visits == 0 or not may_play(nodes, edges, first + i):
            continue
        visits = float(edge.visits)
        if first + i == best:
            weights[i] = visits
            continue
        gap = limit - settled_mean(edge, player)
        if gap > 0.0:
            enough = math.ceil(factor * edge.prior / gap - 1.0)
            forced = math.floor(forced_visits(settings, edge.prior, root.visits - 1))
            visits = min(visits, max(visits - forced, enough))
        weights[i] = visits if visits > 1.0 else 0.0
