"""Openings of self-play: a few uniformly random plies, so that games do not all run down the same line.

Late in a run the champion knows its way from the start, and ever more games are near-copies of each other. Positions that
it would not choose itself keep the samples varied; the plies before them are no samples.
"""

from __future__ import annotations

import numpy as np

from games import core, positions
from games.core import Game

__all__ = ["random_opening"]

_STREAM = 1  # sets the opening's luck apart from everything else that is drawn from the seed of a game


def random_opening(game: Game, *, seed: int, most_plies: int) -> list[int]:
    """Return 0 to `most_plies` random actions from the start of the game with that seed, after which it goes on.

    Each number of plies is equally likely; where the moves would end the game, the last of them is left out.
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
