"""How many leaves alpha-beta needs: Knuth and Moore 1975, for a tree with `branching` moves everywhere and best moves first.

The leaves of the minimal tree by the type of the node that leads to them: the one at the end of the best line (PV), those
whose parents are cut after their first move (CUT), and those of parents all of whose moves must be searched (ALL). With a
depth more, either kind is multiplied in turn.
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
        """All of them."""
        return self.pv + self.cut + self.all


def minimal_tree(branching: int, depth: int) -> MinimalTree:
    """Return the leaves of the minimal tree by the recurrences over its depth; depth 0 is a lone leaf."""
    tree = MinimalTree(1, 0, 0)
    for n in range(1, depth + 1):
        power = branching ** ((n + 1) // 2)
        if n % 2:
            tree = tree._replace(cut=tree.cut + power - power // branching)
        else:
            tree = tree._replace(all=tree.all + power - power // branching)
    return tree


def fewest_leaves(branching: int, depth: int) -> int:
    """Return how many leaves alpha-beta visits with the best order."""
    return int(branching ** ((depth + 1) // 2) + branching ** (depth // 2) - 1)


def most_leaves(branching: int, depth: int) -> int:
    """Return how many leaves minimax visits, and alpha-beta with the worst order."""
    return int(branching**depth)
