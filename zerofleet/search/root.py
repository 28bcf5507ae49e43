"""A searched root as people and agents read it: moves with priors, visits and values, and the expected line.

Axes: n legal actions, P players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerofleet.search.arena import Arena
from zerofleet.search.decide import best_edge, root_value
from zerofleet.search.tree import NO_NODE, ROOT

__all__ = ["RootAnalysis", "analyse_root"]


@dataclass(frozen=True, slots=True)
class RootAnalysis:
    """A searched root."""

    to_move: int
    version: int
    actions: np.ndarray  # int32 [n], every legal action, ascending
    priors: np.ndarray  # float32 [n], without noise's effect only where noise is off
    visits: np.ndarray  # int32 [n]
    values: np.ndarray  # float32 [n], mean value for the player to move; nan where not visited
    value: np.ndarray  # float32 [P], mean value of the root in seat order
    principal_variation: tuple[int, ...]  # most visited line from the root; one move where information is hidden

    @property
    def best_action(self) -> int:
        """The most visited action, of those the best, of those the lowest; the likeliest one where nothing was searched."""
        if self.principal_variation:
            return self.principal_variation[0]
        return int(self.actions[int(np.argmax(self.priors))])

    def ranking(self) -> list[int]:
        """Return the indices of the actions, best first: by visits, then by prior."""
        return [int(index) for index in np.lexsort((-self.priors, -self.visits))]


def analyse_root(arena: Arena, slot: int, *, alternates: bool) -> RootAnalysis:
    """Return the root of a slot, which must be evaluated.

    `alternates`: every player's decisions stand in the tree, so the expected line goes on below the root.
    """
    nodes, edges = arena.nodes[slot], arena.edges[slot]
    root = nodes[ROOT]
    mover = int(root["to_move"])
    own = edges[root["edge_start"] : root["edge_start"] + root["edge_count"]]
    value = np.zeros(nodes["value"].shape[1], dtype=np.float32)
    root_value(nodes, edges, value)
    visits = own["visits"].copy()
    sums = own["value"][:, mover]
    line = _principal_variation(nodes, edges)
    return RootAnalysis(
        to_move=mover,
        version=int(arena.slots[slot]["version"]),
        actions=own["action"].astype(np.int32),
        priors=own["prior"].copy(),
        visits=visits,
        values=np.where(visits > 0, sums / np.maximum(visits, 1), np.nan).astype(np.float32),
        value=value,
        principal_variation=line if alternates else line[:1],
    )


def _principal_variation(nodes: np.ndarray, edges: np.ndarray) -> tuple[int, ...]:
    """Return the most visited line from the root."""
    line = []
    index = ROOT
    while index != NO_NODE and nodes[index]["edge_count"]:
        first = nodes[index]["edge_start"]
        own = edges[first : first + nodes[index]["edge_count"]]
        best = best_edge(nodes, edges) if index == ROOT else first + int(np.argmax(own["visits"]))
        if edges[best]["visits"] == 0:
            break
        line.append(int(edges[best]["action"]))
        index = int(edges[best]["child"])
    return tuple(line)
