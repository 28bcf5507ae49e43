"""From a finished search to a move: policy target, temperature, resignation, and the history entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import lean
from games.kit.randomness import uniform
from zerofleet.contracts.played import FULL_SEARCH, WOULD_RESIGN
from zerofleet.search.arena import Arena, History
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.gumbel import gumbel_select, improved_policy
from zerofleet.search.puct import prune_forced, settled_mean
from zerofleet.search.tree import ROOT

__all__ = ["best_edge", "choose_move", "note_search", "root_value", "temperature_at"]


@lean
def temperature_at(settings: CompiledSettings, ply: int) -> float:
    """Return the temperature of a ply: linear from `temperature` to `temperature_end` over `temperature_plies`."""
    if ply >= settings.temperature_plies:
        return settings.temperature_end
    return settings.temperature + (settings.temperature_end - settings.temperature) * ply / settings.temperature_plies


@lean
def root_value(nodes: Any, edges: Any, out: np.ndarray) -> None:
    """Write the root's mean value, including its own evaluation, into `out` (float32 [P], seat order)."""
    root = nodes[ROOT]
    for player in range(out.shape[0]):
        total = float(root.value[player])
        for e in range(root.edge_start, root.edge_start + root.edge_count):
            total += edges[e].value[player]
        out[player] = total / max(1, root.visits)


@lean
def best_edge(nodes: Any, edges: Any) -> int:
    """Return the root's most visited edge; ties go to the higher mean for the mover, then to the lower action.

    Without visits it is the edge with the largest prior.
    """
    root = nodes[ROOT]
    player = root.to_move
    best = int(root.edge_start)
    for e in range(root.edge_start + 1, root.edge_start + root.edge_count):
        more = edges[e].visits > edges[best].visits
        if edges[e].visits == edges[best].visits:
            if edges[e].visits > 0:
                more = settled_mean(edges[e], player) > settled_mean(edges[best], player)
            else:
                more = edges[e].prior > edges[best].prior
        if more:
            best = e
    return best


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
def choose_move(arena: Arena, g: int, settings: CompiledSettings) -> int:
    """Return the root edge to play, and write the weights of the policy target to `arena.weights`.

    PUCT: by visits (forced playouts pruned) and temperature; by priors without a search. Gumbel: the winner of sequential
    halving.
    """
    slot = arena.slots[g]
    nodes, edges, weights = arena.nodes[g], arena.edges[g], arena.weights
    root = nodes[ROOT]
    if settings.gumbel:
        improved_policy(nodes, edges, settings, weights)
        return gumbel_select(nodes, edges, arena.noise[g], settings, -1)
    forced = slot.full and settings.forced_playouts > 0.0 and settings.dirichlet_fraction > 0.0 and root.visits > 1
    if forced and settings.prune_targets:
        prune_forced(nodes, edges, settings, weights)
    else:
        for i in range(root.edge_count):
            edge = edges[root.edge_start + i]
            weights[i] = edge.visits if root.visits > 1 else edge.prior
    temperature = temperature_at(settings, slot.ply)
    if temperature <= 0.0:
        return best_edge(nodes, edges)
    return int(root.edge_start) + _sample(weights, root.edge_count, temperature, arena.words[g])


@lean
def note_search(arena: Arena, history: History, g: int, settings: CompiledSettings) -> bool:
    """Write the search of the current ply to the history; return whether the mover resigns.

    `arena.weights` holds the policy target's weights from `choose_move`.
    """
    slot = arena.slots[g]
    nodes, edges = arena.nodes[g], arena.edges[g]
    root = nodes[ROOT]
    ply = slot.ply
    value = history.values[g, ply]
    root_value(nodes, edges, value)
    best = best_edge(nodes, edges)
    mover = root.to_move
    lost = value[mover] <= settings.resign_threshold and settings.resign_threshold > -1.0 and value.shape[0] == 2
    lost = lost and edges[best].visits > 0 and settled_mean(edges[best], mover) <= settings.resign_threshold
    history.flags[g, ply] = (FULL_SEARCH if slot.full else 0) | (WOULD_RESIGN if lost else 0)
    history.versions[g, ply] = slot.version
    total = 0.0
    for i in range(root.edge_count):
        total += arena.weights[i]
    differs = settings.gumbel or total != root.visits - 1
    count = 0
    for i in range(root.edge_count):
        edge = edges[root.edge_start + i]
        weight = arena.weights[i] / total if differs and total > 0.0 else 0.0
        if edge.visits == 0 and weight < 0.5 / 65535.0:
            continue
        history.actions[g, ply, count] = edge.action
        history.visits[g, ply, count] = edge.visits
        history.targets[g, ply, count] = weight
        count += 1
    history.counts[g, ply] = count
    return lost and not slot.control
