"""From a finished search to a move: policy target, temperature, resignation, and the history entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import lean
from games.kit.randomness import uniform
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.search.arena import Arena, History
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.gumbel import gumbel_select, improved_policy, policy_value
from zerofleet.search.proof import is_proven, may_play, moves_left
from zerofleet.search.puct import prune_forced, settled_mean
from zerofleet.search.simulate import prepare_root, tree_of
from zerofleet.search.tree import ROOT, wide

__all__ = ["best_edge", "choose_move", "chosen_edge", "note_search", "root_value", "temperature_at"]


@lean
def temperature_at(settings: CompiledSettings, ply: int) -> float:
    """Return the temperature of a ply: linear from `temperature` to `temperature_end` over `temperature_plies`."""
    if ply >= settings.temperature_plies:
        return settings.temperature_end
    return settings.temperature + (settings.temperature_end - settings.temperature) * ply / settings.temperature_plies


@lean
def root_value(nodes: Any, edges: Any, settings: CompiledSettings, weights: np.ndarray, out: np.ndarray) -> None:
    """Write the root's value into `out` (float32 [P], seat order).

    PUCT: the mean of the root's own evaluation and of all visits of edges that may be played. Gumbel: the value under the
    improved policy, which `weights` holds. Both stay within the proven bounds.
    """
    root = nodes[ROOT]
    if settings.gumbel:
        policy_value(nodes, edges, weights, out)
    else:
        _mean_value(nodes, edges, out)
    for player in range(out.shape[0]):
        out[player] = max(root.lower[player], min(root.upper[player], out[player]))


@lean
def _mean_value(nodes: Any, edges: Any, out: np.ndarray) -> None:
    root = nodes[ROOT]
    visits = min(1, root.visits)
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        if may_play(nodes, edges, e):
            visits += edges[e].visits
    for player in range(out.shape[0]):
        total = float(root.value[player])
        for e in range(root.edge_start, root.edge_start + root.edge_count):
            if may_play(nodes, edges, e):
                total += edges[e].value[player]
        out[player] = total / max(1, visits)


@lean
def best_edge(nodes: Any, edges: Any) -> int:
    """Return the most visited of the root edges that may be played; ties go to the higher mean for the mover, then to the
    lower action.

    Without visits it is the edge with the largest prior.
    """
    root = nodes[ROOT]
    player = wide(root.to_move)
    best = -1
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        if not may_play(nodes, edges, e):
            continue
        more = best < 0 or edges[e].visits > edges[best].visits
        if best >= 0 and edges[e].visits == edges[best].visits:
            if edges[e].visits > 0:
                more = settled_mean(edges[e], player) > settled_mean(edges[best], player)
            else:
                more = edges[e].prior > edges[best].prior
        if more:
            best = e
    return best


@lean
def chosen_edge(nodes: Any, edges: Any, bias: np.ndarray, settings: CompiledSettings) -> int:
    """Return the root edge to play without a temperature; `bias` as in `gumbel_select`."""
    if settings.gumbel:
        return gumbel_select(nodes, edges, bias, settings, wide(-1))
    return best_edge(nodes, edges)


@lean
def _sample(weights: np.ndarray, count: int, temperature: float, word: np.ndarray) -> int:
    """Return an index drawn with probability proportional to weight ** (1 / temperature)."""
    peak, total = 0.0, 0.0
    for i in range(count):
        peak = max(peak, weights[i])
    for i in range(count):
        total += (weights[i] / peak) ** (1.0 / temperature)
    aim = uniform(word) * total
    last = 0
    for i in range(count):
        if weights[i] > 0.0:
            last = i
            aim -= (weights[i] / peak) ** (1.0 / temperature)
            if aim < 0.0:
                return i
    return last


@lean
def _count_visits(nodes: Any, edges: Any, weights: np.ndarray) -> None:
    """Write the visits of the root edges that may be played into `weights` (float64 [>= edges]), 0 for the others."""
    root = nodes[ROOT]
    for i in range(root.edge_count):
        weights[i] = edges[root.edge_start + i].visits if may_play(nodes, edges, root.edge_start + i) else 0.0


@lean
def _share_by_priors(nodes: Any, edges: Any, weights: np.ndarray) -> None:
    """Add the priors to the weights of the edges that may be played, if the visits do not suffice: there are none, or the
    root is proven. Edges without any prior share equally."""
    root = nodes[ROOT]
    visits, mass = 0.0, 0.0
    for i in range(root.edge_count):
        visits += weights[i]
        if may_play(nodes, edges, root.edge_start + i):
            mass += edges[root.edge_start + i].prior
    if visits > 0.0 and not is_proven(nodes, wide(ROOT)):
        return
    for i in range(root.edge_count):
        if may_play(nodes, edges, root.edge_start + i):
            weights[i] += edges[root.edge_start + i].prior if visits + mass > 0.0 else 1.0


@lean
def choose_move(arena: Arena, g: int, settings: CompiledSettings) -> int:
    """Return the root edge to play, and write the weights of the policy target to `arena.weights`.

    PUCT: by visits (forced playouts pruned) and temperature; by priors without a search. Gumbel: the winner of sequential
    halving, or a sample of the improved policy. Only edges that may be played have weights: a proven win is thus played at
    any temperature, and a proven loss only where all moves lose.
    """
    slot = arena.slots[g]
    nodes, edges, weights = arena.nodes[g], arena.edges[g], arena.weights
    temperature = temperature_at(settings, slot.ply)
    if settings.gumbel:
        if not slot.prepared:
            prepare_root(tree_of(arena, g), slot, settings)
        improved_policy(nodes, edges, settings, weights)
        if not settings.gumbel_sampling:
            temperature = 0.0
    else:
        forced = slot.full and settings.forced_playouts > 0.0 and settings.dirichlet_fraction > 0.0
        if forced and settings.prune_targets:
            prune_forced(nodes, edges, settings, arena.exploration, weights)
        else:
            _count_visits(nodes, edges, weights)
        _share_by_priors(nodes, edges, weights)
    if temperature <= 0.0:
        return chosen_edge(nodes, edges, arena.bias[g], settings)
    return int(nodes[ROOT].edge_start) + _sample(weights, nodes[ROOT].edge_count, temperature, arena.words[g])


@lean
def _is_exact(nodes: Any, edges: Any) -> bool:
    """Return whether proofs alone decide the move: one move is left, or the best value is proven and is no loss."""
    root = nodes[ROOT]
    player = wide(root.to_move)
    return (is_proven(nodes, wide(ROOT)) and root.lower[player] > -1.0) or moves_left(nodes, edges) == 1


@lean
def note_search(arena: Arena, history: History, g: int, settings: CompiledSettings) -> bool:
    """Write the search of the current ply to the history; return whether the mover resigns.

    `arena.weights` holds the policy target's weights from `choose_move`. A move that proofs decide counts as a full search,
    since its target is exact.
    """
    slot = arena.slots[g]
    nodes, edges = arena.nodes[g], arena.edges[g]
    root = nodes[ROOT]
    ply = slot.ply
    value = history.values[g, ply]
    root_value(nodes, edges, settings, arena.weights, value)
    target = slot.target or (settings.proofs and root.visits > 0 and _is_exact(nodes, edges))
    lost = settings.resign_threshold > -1.0 and value.shape[0] == 2 and _is_lost(nodes, edges, value, settings)
    history.flags[g, ply] = (FULL_SEARCH if target else 0) | (WOULD_RESIGN if lost else 0) | (REDUCED if slot.reduced else 0)
    history.versions[g, ply] = slot.version
    total, differs = 0.0, False  # from the visits
    for i in range(root.edge_count):
        total += arena.weights[i]
        differs |= arena.weights[i] != edges[root.edge_start + i].visits
    count = 0
    for i in range(root.edge_count):
        edge = edges[root.edge_start + i]
        weight = arena.weights[i] / total if differs else 0.0
        if edge.visits == 0 and weight < 0.5 / 65535.0:
            continue
        history.actions[g, ply, count] = edge.action
        history.visits[g, ply, count] = edge.visits
        history.targets[g, ply, count] = weight
        count += 1
    history.counts[g, ply] = count
    return lost and not slot.control


@lean
def _is_lost(nodes: Any, edges: Any, value: np.ndarray, settings: CompiledSettings) -> bool:
    """Return whether neither the root's value (float32 [P]) nor its best move exceeds the threshold for the mover.

    The value is the mean of all visits, or the value under the improved policy of a Gumbel root. The mean of the best move
    guards against one that was found late, and is not needed where the loss is proven.
    """
    mover = wide(nodes[ROOT].to_move)
    if value[mover] > settings.resign_threshold:
        return False
    if is_proven(nodes, wide(ROOT)):
        return True
    best = best_edge(nodes, edges)
    return edges[best].visits > 0 and settled_mean(edges[best], mover) <= settings.resign_threshold
