"""Scratch memory of a depth-first search: one position and one move list per ply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.core import Game, State

__all__ = ["Scratch", "scratch_for"]


class Scratch(NamedTuple):
    """Buffers of a compiled recursive search. D: depth in plies."""

    stack: np.ndarray  # spec.state_dtype [D + 1, S]; row 0 is the root
    listed: np.ndarray  # int16 [D + 1, L]
    scores: np.ndarray  # float32 [P]
    nodes: np.ndarray  # int64 [1], positions visited


def scratch_for(game: Game, state: State, plies: int) -> Scratch:
    """Return buffers for a search `plies` deep from a copy of `state`, with the root already counted."""
    spec = game.spec()
    stack = np.empty((plies + 1, spec.state_size), dtype=spec.state_dtype)
    stack[0] = state
    return Scratch(
        stack=stack,
        listed=np.empty((plies + 1, spec.max_legal), dtype=np.int16),
        scores=np.empty(spec.num_players, dtype=np.float32),
        nodes=np.ones(1, dtype=np.int64),
    )
