"""Result of a search: the root's moves with priors, visits and values, and the principal variation.

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
    """Searched root."""

    to_move: int
    version: int
    actions: np.ndarray  # int32 [n], every legal action, ascending
    priors: np.ndarray  # float32 [n], including root noise if it is on
    visits: np.ndarray  # int32 [n]
    values: np.ndarray  # float32 [n], mean value for the player to move; nan if unvisited
    value: np.ndarray  # float32 [P], mean value of the root in seat order
    principal_variation: tuple[int, ...]  # most visited line from the root; one move with hidden information

    @property
    def best_action(self) -> int:
        """Most visited action; ties go to the higher value, then the lower action. Without a search: the largest prior."""
        if self.principal_variation:
            return self.principal_variation[0]
        return int(self.actions[int(np.argmax(self.priors))])

    def ranking(self) -> list[int]:
        """Return the indices of the actions, best first: by visits, then by prior."""
        return [int(index) for index in np.lexsort((-self.priors, -self.visits))]


def analyse_root(arena: Arena, slot: int, *, alternates: bool) -> RootAnalysis:
    """Return the root of a slot, which must be evaluated.

    `alternates`: the tree holds every player's decisions, so the principal variation continues below the root.
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
