"""Result of a search: the root's moves with priors, visits and values, and the principal variation.

Axes: n legal actions, P players.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zerofleet.search.arena import Arena
from zerofleet.search.compiled_settings import CompiledSettings
from zerofleet.search.decide import best_edge, chosen_edge, root_value
from zerofleet.search.gumbel import improved_policy
from zerofleet.search.proof import is_proven, lower_of, may_play, upper_of
from zerofleet.search.tree import NO_NODE, OPEN, ROOT

__all__ = ["RootAnalysis", "analyse_root"]


@dataclass(frozen=True, slots=True)
class RootAnalysis:
    """Searched root."""

    to_move: int
    version: int
    actions: np.ndarray  # int32 [n], every legal action, ascending
    priors: np.ndarray  # float32 [n], including root noise if it is on
    visits: np.ndarray  # int32 [n]
    values: np.ndarray  # float32 [n], mean or proven value for the player to move; nan if unvisited and not proven
    candidates: np.ndarray  # bool [n], false for a move that a proof rules out: a better one is certain, or it loses
    value: np.ndarray  # float32 [P], value of the root in seat order (`zerofleet.search.decide.root_value`)
    proven: bool  # whether the root's value for the player to move is proven
    principal_variation: tuple[int, ...]  # most visited line from the root; one move with hidden information

    @property
    def best_action(self) -> int:
        """Action that the search plays (`zerofleet.search.decide.chosen_edge`). Without a search: the largest prior."""
        if self.principal_variation:
            return self.principal_variation[0]
        return int(self.actions[int(np.argmax(self.priors))])

    def ranking(self) -> list[int]:
        """Return the indices of the actions, best first: candidates, then by visits, then by prior."""
        return [int(index) for index in np.lexsort((-self.priors, -self.visits, ~self.candidates))]


def analyse_root(arena: Arena, slot: int, settings: CompiledSettings, *, alternates: bool) -> RootAnalysis:
    """Return the root of a slot, which must be evaluated.

    `alternates`: the tree holds every player's decisions, so the principal variation continues below the root.
    """
    nodes, edges = arena.nodes[slot], arena.edges[slot]
    root = nodes[ROOT]
    mover = int(root["to_move"])
    first, count = int(root["edge_start"]), int(root["edge_count"])
    own = edges[first : first + count]
    weights = np.zeros(count)
    if settings.gumbel:
        improved_policy(nodes, edges, settings, weights)
    value = np.zeros(nodes["value"].shape[1], dtype=np.float32)
    root_value(nodes, edges, settings, weights, value)
    drawn = settings.gumbel and arena.slots[slot]["prepared"]
    best = chosen_edge(nodes, edges, arena.bias[slot], settings) if drawn else best_edge(nodes, edges)
    line = _principal_variation(nodes, edges, best)
    return RootAnalysis(
        to_move=mover,
        version=int(arena.slots[slot]["version"]),
        actions=own["action"].astype(np.int32),
        priors=own["prior"].copy(),
        visits=own["visits"].copy(),
        values=np.array([_value_of(nodes, edges, e, mover) for e in range(first, first + count)], dtype=np.float32),
        candidates=np.array([may_play(nodes, edges, e) for e in range(first, first + count)], dtype=np.bool_),
        value=value,
        proven=bool(is_proven(nodes, ROOT)),
        principal_variation=line if alternates else line[:1],
    )


def _value_of(nodes: np.ndarray, edges: np.ndarray, e: int, mover: int) -> float:
    """Return the mean value of a root edge for the mover, the proven value if it is unvisited, or nan."""
    if edges[e]["visits"]:
        return float(edges[e]["value"][mover] / edges[e]["visits"])
    lower = float(lower_of(nodes, edges, e, mover))
    return lower if lower == upper_of(nodes, edges, e, mover) else math.nan


def _principal_variation(nodes: np.ndarray, edges: np.ndarray, best: int) -> tuple[int, ...]:
    """Return the most visited line from the root, without moves that proofs rule out; it begins with `best`.

    Empty if only priors favour `best`, neither visits nor proofs.
    """
    line = []
    root = nodes[ROOT]
    own = edges[root["edge_start"] : root["edge_start"] + root["edge_count"]]
    if edges[best]["visits"] == 0 and not is_proven(nodes, ROOT) and np.all(own["proof"] == OPEN):
        return ()
    while True:
        line.append(int(edges[best]["action"]))
        index = int(edges[best]["child"])
        if index == NO_NODE or nodes[index]["edge_count"] == 0:
            return tuple(line)
        first = int(nodes[index]["edge_start"])
        own = edges[first : first + int(nodes[index]["edge_count"])]
        best = first + int(np.argmax(np.where(own["proof"] == OPEN, own["visits"], 0)))
        if edges[best]["visits"] == 0:
            return tuple(line)
