"""Room for a depth-first search: one position and one list of moves for each ply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.core import Game, State

__all__ = ["Scratch", "scratch_for"]


class Scratch(NamedTuple):
    """What the recursion of a compiled search writes to. D plies deep."""

    stack: np.ndarray  # spec.state_dtype [D + 1, S]; row 0 is the root
    listed: np.ndarray  # int16 [D + 1, L]
    scores: np.ndarray  # float32 [P]
    nodes: np.ndarray  # int64 [1], positions looked at


def scratch_for(game: Game, state: State, plies: int) -> Scratch:
    """Return room for a search `plies` deep from a copy of `state`, the root already counted."""
    spec = game.spec()
    stack = np.empty((plies + 1, spec.state_size), dtype=spec.state_dtype)
    stack[0] = state
    return Scratch(
        stack=stack,
        listed=np.empty((plies + 1, spec.max_legal), dtype=np.int16),
        scores=np.empty(spec.num_players, dtype=np.float32),
        nodes=np.ones(1, dtype=np.int64),
    )
