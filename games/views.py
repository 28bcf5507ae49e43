"""View of the other player: how an encoded position becomes the one that the player who is not to move sees.

A position travels in the view of its player to move. A network that knows the first player's view alone needs more: which of
the two is to move, and the planes of the other view. Both follow from the bits in games in which

- the players move in turn and each move adds one stone of its mover, so that the first player is to move if and only if
  both have the same number of stones;
- planes 0 and 1 are the stones of the viewer and of the other player;
- every plane of the other view is a plane of this one, or its complement.

A `GameSpec` that has an `OtherView` promises this.

Axes: B positions, C planes, H x W cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["OtherView", "first_to_move", "seen_by_first"]


@dataclass(frozen=True, slots=True)
class OtherView:
    """Planes of the other player's view, in terms of those of the player to move."""

    sources: tuple[int, ...]
    """Number of the plane from which each of the C planes is taken."""
    inverted: tuple[bool, ...]
    """Whether it is the complement of that plane."""


def first_to_move(planes: np.ndarray) -> np.ndarray:
    """Return whether the first player is to move, bool [B]; `planes`: uint8 [B, C, H, W], as the player to move sees them."""
    stones = planes[:, :2].sum(axis=(2, 3), dtype=np.int64)
    level: np.ndarray = np.equal(stones[:, 0], stones[:, 1])
    return level


def seen_by_first(planes: np.ndarray, other: OtherView) -> np.ndarray:
    """Return the positions as the first player sees them, uint8 [B, C, H, W]; `planes`: as the player to move sees them."""
    swapped = planes[:, list(other.sources)] ^ np.array(other.inverted, dtype=planes.dtype)[:, None, None]
    return np.where(first_to_move(planes)[:, None, None, None], planes, swapped)
