"""Gumbel root: sampling without replacement, sequential halving, and the improved policy as target.

Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", sections 3 and 4, appendix D; visits are
scheduled as in its published code, by a table of the visits that the next considered action must already have.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from games.compiled import lean
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.proof import is_proven, may_play
from zerofleet.search.puct import settled_mean
from zerofleet.search.tree import ROOT, wide

__all__ = ["considered_visits", "gumbel_select", "improved_policy", "policy_value"]

_TINY = 1e-8  # keeps the logarithm of a prior that was rounded to zero finite


def considered_visits(most_considered: int, most_simulations: int) -> np.ndarray:
    """Return int32 [most_considered + 1, most_simulations]: row m, column t is the number of visits that the action of
    simulation t must already have, if m actions are considered initially."""
    table = np.zeros((most_considered + 1, most_simulations), dtype=np.int32)
    for considered in range(1, most_considered + 1):
        table[considered] = _schedule(considered, most_simulations)
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


@lean
def _best_visits(nodes: Any, edges: Any) -> int:
    root = nodes[ROOT]
    most = 0
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        if edges[e].visits > most and may_play(nodes, edges, e):
            most = edges[e].visits
    return most


@lean
def _sigma(settings: CompiledSettings, most_visits: int, value: float) -> float:
    """Return the monotone transform of a value in [-1, 1] (equation 8, with q scaled to [0, 1])."""
    return (settings.gumbel_visit_offset + most_visits) * settings.gumbel_value_scale * 0.5 * (value + 1.0)


@lean
def _mixed_value(nodes: Any, edges: Any, player: int) -> float:
    """Return v_mix, the value of an unvisited root action for `player` (appendix D), over the actions that may be played."""
    root = nodes[ROOT]
    mass, weighted, visits = 0.0, 0.0, 0
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        if edges[e].visits > 0 and may_play(nodes, edges, e):
            mass += edges[e].prior
            weighted += edges[e].prior * settled_mean(edges[e], player)
            visits += edges[e].visits
    if visits == 0 or mass <= 0.0:
        return root.value[player]  # type: ignore[no-any-return]
    return (root.value[player] + visits * weighted / mass) / (1.0 + visits)  # type: ignore[no-any-return]


@lean
def _completed(nodes: Any, edges: Any, e: int, player: int, mixed: float) -> float:
    """Return the completed value of a root action for the mover: its mean, `mixed` if unvisited, what is proven if that is."""
    if is_proven(nodes, wide(ROOT)):
        return nodes[ROOT].lower[player]  # type: ignore[no-any-return]
    return settled_mean(edges[e], player) if edges[e].visits > 0 else mixed


@lean
def gumbel_select(nodes: Any, edges: Any, noise: np.ndarray, settings: CompiledSettings, wanted_visits: int) -> int:
    """Return the root edge with `wanted_visits` (including flights) whose noise + logit + sigma(q) is highest.

    `noise` (float64 [>= edges of the root]) holds the Gumbel variates. `wanted_visits` < 0 selects among the most visited
    edges: the action to play. An edge that may not be played is never selected.
    """
    root = nodes[ROOT]
    player = wide(root.to_move)
    first, count = int(root.edge_start), int(root.edge_count)
    most = _best_visits(nodes, edges)
    mixed = _mixed_value(nodes, edges, player)
    best, best_score, best_fit = -1, -np.inf, False
    for i in range(count):
        edge = edges[first + i]
        if not may_play(nodes, edges, first + i):
            continue
        visits = edge.visits + edge.flight
        value = _completed(nodes, edges, first + i, player, mixed)
        score = noise[i] + math.log(edge.prior + _TINY) + _sigma(settings, most, value)
        fit = edge.visits == most if wanted_visits < 0 else visits == wanted_visits
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
    most = _best_visits(nodes, edges)
    mixed = _mixed_value(nodes, edges, player)
    peak = -np.inf
    for i in range(count):
        weights[i] = -np.inf
        if may_play(nodes, edges, first + i):
            value = _completed(nodes, edges, first + i, player, mixed)
            weights[i] = math.log(edges[first + i].prior + _TINY) + _sigma(settings, most, value)
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
        mixed = _mixed_value(nodes, edges, player)
        total = 0.0
        for i in range(root.edge_count):
            edge = edges[root.edge_start + i]
            if weights[i] > 0.0:
                total += weights[i] * (settled_mean(edge, player) if edge.visits > 0 else mixed)
        out[player] = total
