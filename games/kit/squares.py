"""Symmetries of boards of size x size cells."""

from __future__ import annotations

import numpy as np

from games.core import Symmetry

__all__ = ["square_symmetries"]


def square_symmetries(size: int, *, other_actions: int = 0) -> tuple[Symmetry, ...]:
    """Return the seven rotations and reflections of the square besides the identity.

    Actions are the cells row by row, followed by `other_actions` that every symmetry leaves unchanged.
    """
    board = np.arange(size * size, dtype=np.int32).reshape(size, size)
    images = {}
    for turns in range(4):
        turned = np.rot90(board, turns)
        images[f"rotate{turns * 90}"] = turned
        images[f"rotate{turns * 90}_mirror"] = np.fliplr(turned)
    del images["rotate0"]
    found = []
    for name, image in images.items():
        cells = image.ravel().astype(np.int32)
        actions = np.arange(size * size + other_actions, dtype=np.int16)
        actions[cells] = np.arange(size * size)
        found.append(Symmetry(name, cells, actions))
    return tuple(found)
