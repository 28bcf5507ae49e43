"""Gumbel root: sampling without replacement, sequential halving, and the improved policy as target.

Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", sections 3 and 4, appendix D; visits are
scheduled as in its published code, by a table of the visits that the next considered action must already have.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from games.compiled import inlined, lean
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.proof import is_candidate, is_proven
from zerofleet.search.puct import settled_mean
from zerofleet.search.tree import ROOT, wide

__all__ = ["considered_visits", "gumbel_select", "improved_policy", "logit", "policy_value"]

_TINY = 1e-8  # keeps the logarithm of a prior that was rounded to zero finite


@lru_cache(maxsize=8)  # a search of one position allocates a block, and with it the table, for each move
def considered_visits(most_considered: int, most_simulations: int) -> np.ndarray:
    """Return int32 [most_considered + 1, most_simulations], read-only: row m, column t is the number of visits that the action
    of simulation t must already have, if m actions are considered initially."""
    table = np.zeros((most_considered + 1, most_simulations), dtype=np.int32)
    for considered in range(1, most_considered + 1):
        table[considered] = _schedule(considered, most_simulations)
    table.flags.writeable = False
    return table


def _schedule(considered: int, simulations: int) -> np.ndarray:
    """Return the schedule of one budget: each phase visits the remaining actions equally, then keeps the better half."""
    if considered <= 1:
        return np.arange(simulations, dtype=np.int32)
    phases = math.ceil(math.log2(considered))
    sequence: list[int] = []
    visits = [0] * considered
    alive = considered
    while len(sequence) < simulations:
        for _ in range(max(1, simulations // (phases * alive))):
            sequence.extend(visits[:alive])
            for i in range(alive):
                visits[i] += 1
        alive = max(2, alive // 2)
    return np.array(sequence[:simulations], dtype=np.int32)


@inlined
def logit(prior: float) -> float:
    """Return the logarithm of a prior."""
    return math.log(prior + _TINY)


@lean
def _visited(nodes: Any, edges: Any, player: int) -> tuple[int, float]:
    """Return the most visits of a root action that may be played, and v_mix, the value of an unvisited one for `player`
    (appendix D), over those actions."""
    root = nodes[ROOT]
    proven = is_proven(nodes, wide(ROOT))
    most, mass, weighted, visits = 0, 0.0, 0.0, 0
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        edge = edges[e]
        if edge.visits > 0 and is_candidate(nodes, edges, e, proven):
            most = max(most, edge.visits)
            mass += edge.prior
            weighted += edge.prior * settled_mean(edge, player)
            visits += edge.visits
    if visits == 0 or mass <= 0.0:
        return most, float(root.value[player])
    return most, (root.value[player] + visits * weighted / mass) / (1.0 + visits)


@inlined
def _scale(settings: CompiledSettings, most_visits: int) -> float:
    """Return the slope of sigma, the monotone transform of values (equation 8, with q scaled to [0, 1]); see `_sigma`."""
    return (settings.gumbel_visit_offset + most_visits) * settings.gumbel_value_scale * 0.5


@inlined
def _sigma(scale: float, value: float) -> float:
    """Return the transform of a value in [-1, 1]."""
    return scale * (value + 1.0)


@inlined
def _completed(root: Any, edge: Any, player: int, proven: bool, mixed: float) -> float:
    """Return the completed value of a root action for the mover: what is proven of the root, its mean, `mixed` if unvisited."""
    if proven:
        return root.lower[player]  # type: ignore[no-any-return]
    return settled_mean(edge, player) if edge.visits > 0 else mixed


@lean
def gumbel_select(nodes: Any, edges: Any, bias: np.ndarray, settings: CompiledSettings, wanted_visits: int) -> int:
    """Return the root edge with `wanted_visits` (including flights) whose variate + logit + sigma(q) is highest.

    `bias` (float64 [>= edges of the root]) holds the sum of the first two. `wanted_visits` < 0 selects among the most visited
    edges: the action to play. An edge that may not be played is never selected.
    """
    root = nodes[ROOT]
    player = wide(root.to_move)
    first, count = int(root.edge_start), int(root.edge_count)
    proven = is_proven(nodes, wide(ROOT))
    most, mixed = _visited(nodes, edges, player)
    scale = _scale(settings, most)
    best, best_score, best_fit = -1, -np.inf, False
    for i in range(count):
        edge = edges[first + i]
        if not is_candidate(nodes, edges, first + i, proven):
            continue
        score = bias[i] + _sigma(scale, _completed(root, edge, player, proven, mixed))
        fit = edge.visits == most if wanted_visits < 0 else edge.visits + edge.flight == wanted_visits
        if best < 0 or (fit and not best_fit) or (fit == best_fit and score > best_score):
            best, best_score, best_fit = first + i, score, fit
    return best


@lean
def improved_policy(nodes: Any, edges: Any, settings: CompiledSettings, weights: np.ndarray) -> None:
    """Write softmax(logits + sigma(completed q)) over the root's edges into `weights` (float64 [>= edges]).

    An edge that may not be played has none; with a proven root, the others thus share in proportion to their priors.
    """
    root = nodes[ROOT]
    player = wide(root.to_move)
    first, count = root.edge_start, root.edge_count
    proven = is_proven(nodes, wide(ROOT))
    most, mixed = _visited(nodes, edges, player)
    scale = _scale(settings, most)
    peak = -np.inf
    for i in range(count):
        edge = edges[first + i]
        weights[i] = -np.inf
        if is_candidate(nodes, edges, first + i, proven):
            weights[i] = logit(edge.prior) + _sigma(scale, _completed(root, edge, player, proven, mixed))
            peak = max(peak, weights[i])
    total = 0.0
    for i in range(count):
        weights[i] = math.exp(weights[i] - peak)
        total += weights[i]
    for i in range(count):
        weights[i] /= total


@lean
def policy_value(nodes: Any, edges: Any, weights: np.ndarray, out: np.ndarray) -> None:
    """Write the root's value under the improved policy in `weights` into `out` (float32 [P], seat order).

    Each action has its completed value. The mean over visits would be biased, since sequential halving visits bad actions as
    often as good ones (mctx, issues 21 and 38).
    """
    root = nodes[ROOT]
    for player in range(out.shape[0]):
        _, mixed = _visited(nodes, edges, player)
        total = 0.0
        for i in range(root.edge_count):
            edge = edges[root.edge_start + i]
            if weights[i] > 0.0:
                total += weights[i] * (settled_mean(edge, player) if edge.visits > 0 else mixed)
        out[player] = total
