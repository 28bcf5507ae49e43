"""Leaf counts of alpha-beta (Knuth and Moore 1975) for a tree with `branching` moves everywhere and best moves first.

The leaves of the minimal tree by the type of their parent: the leaf at the end of the principal variation (PV), those whose
parents are cut after their first move (CUT), and those of parents whose moves must all be searched (ALL). With each further
ply, one of the last two types is multiplied, in turn.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MinimalTree", "fewest_leaves", "minimal_tree", "most_leaves"]


class MinimalTree(NamedTuple):
    """Leaves of the minimal tree by type."""

    pv: int
    cut: int
    all: int

    @property
    def leaves(self) -> int:
        """Number of leaves of all types."""
        return self.pv + self.cut + self.all


def minimal_tree(branching: int, depth: int) -> MinimalTree:
    """Return the leaves of the minimal tree by recurrence over its depth; depth 0 is a single leaf."""
    tree = MinimalTree(1, 0, 0)
    for n in range(1, depth + 1):
        power = branching ** ((n + 1) // 2)
        if n % 2:
            tree = tree._replace(cut=tree.cut + power - power // branching)
        else:
            tree = tree._replace(all=tree.all + power - power // branching)
    return tree


def fewest_leaves(branching: int, depth: int) -> int:
    """Return the number of leaves visited by alpha-beta with the best order."""
    return int(branching ** ((depth + 1) // 2) + branching ** (depth // 2) - 1)


def most_leaves(branching: int, depth: int) -> int:
    """Return the number of leaves visited by minimax, or by alpha-beta with the worst order."""
    return int(branching**depth)
