"""Openings of self-play: a few uniformly random plies, so that games do not all follow the same line.

Late in a run the champion's play from the initial position is nearly deterministic, and games become near-copies. Positions
that it would not reach by itself keep the samples diverse; the random plies are not samples.
"""

from __future__ import annotations

import numpy as np

from games import core, positions
from games.core import Game

__all__ = ["random_opening"]

_STREAM = 1  # separates the opening's randomness from other draws from the seed of a game


def random_opening(game: Game, *, seed: int, most_plies: int) -> list[int]:
    """Return 0 to `most_plies` random actions from the start of the game with that seed, after which it is not over.

    The number of plies is uniform; a move that would end the game is left out.
    """
    if not most_plies:
        return []
    rng = np.random.default_rng([seed, _STREAM])
    state = positions.new_state(game, seed)
    moves: list[int] = []
    for _ in range(int(rng.integers(most_plies + 1))):
        legal = positions.legal(game, state)
        moves.append(legal[int(rng.integers(len(legal)))])
        core.play(game, state, moves[-1])
        if core.is_over(game, state):
            return moves[:-1]
    return moves
