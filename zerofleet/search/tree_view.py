"""Nodes of a search tree as values, for pages that show it.

Axes: n legal actions, P players.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerofleet.search.arena import Arena
from zerofleet.search.tree import EXPANDED, NO_NODE, PROVEN, ROOT

__all__ = ["TreeNode", "view_node"]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """Expanded node with its edges. Values of edges are for the player to move here."""

    to_move: int
    visits: int
    actions: np.ndarray  # int32 [n], ascending
    priors: np.ndarray  # float32 [n], P
    visit_counts: np.ndarray  # int32 [n], N
    values: np.ndarray  # float32 [n], Q: mean value for the player to move; nan if unvisited
    exploration: np.ndarray  # float32 [n], U: the exploration term that PUCT adds to Q
    is_expanded: np.ndarray  # bool [n], whether the child has edges of its own

    def ranking(self) -> list[int]:
        """Return the indices of the actions by visits, then by prior, the largest first."""
        return [int(index) for index in np.lexsort((-self.priors, -self.visit_counts))]


def view_node(arena: Arena, slot: int, path: Sequence[int]) -> TreeNode:
    """Return the node at the end of a path of actions from the root. Raises `ValueError` if it is not expanded."""
    nodes, edges = arena.nodes[slot], arena.edges[slot]
    index = ROOT
    for depth, action in enumerate(path):
        first, count = int(nodes[index]["edge_start"]), int(nodes[index]["edge_count"])
        found = np.flatnonzero(edges["action"][first : first + count] == action)
        index = NO_NODE if not len(found) else int(edges[first + int(found[0])]["child"])
        if index == NO_NODE:
            raise ValueError(f"the search has no node after move {depth + 1} of the path")
    node = nodes[index]
    if node["kind"] not in (EXPANDED, PROVEN) or node["visits"] == 0:
        raise ValueError(f"the node after {len(path)} moves is not expanded")
    first = int(node["edge_start"])
    own, mover = edges[first : first + int(node["edge_count"])], int(node["to_move"])
    visits = own["visits"].astype(np.int32)
    values = np.full(len(own), np.nan, dtype=np.float32)
    np.divide(own["value"][:, mover], visits, out=values, where=visits > 0)
    children = own["child"]
    kinds = np.where(children == NO_NODE, -1, nodes["kind"][np.maximum(children, 0)])
    return TreeNode(
        to_move=mover,
        visits=int(node["visits"]),
        actions=own["action"].astype(np.int32),
        priors=own["prior"].copy(),
        visit_counts=visits,
        values=values,
        exploration=(arena.exploration[node["visits"]] * own["prior"] / (1.0 + visits)).astype(np.float32),
        is_expanded=np.isin(kinds, (EXPANDED, PROVEN)),
    )
