"""Random test positions for a solver: not over, and without an immediate win."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from games import core
from games.connect_four import ConnectFour
from games.core import State
from games.positions import legal, new_state
from zerofleet.agents.exact.solver.connect_four import board_of
from zerofleet.agents.exact.solver.search import outlook
from zerofleet.errors import InvalidRequest

__all__ = ["random_positions"]

FRUITLESS_DRAWS = 100_000


def random_positions(game: ConnectFour, *, plies: range, seed: int) -> Iterator[State]:
    """Yield positions after a random number of random plies, uniform over `plies`; deterministic in the arguments.

    Raises `InvalidRequest` after `FRUITLESS_DRAWS` consecutive draws without such a position.
    """
    rng = np.random.default_rng(seed)
    board = board_of(game)
    fruitless = 0
    while fruitless < FRUITLESS_DRAWS:
        state = _played(game, plies[int(rng.integers(len(plies)))], rng)
        mine = state[1 + core.to_move(game, state)]
        if core.is_over(game, state) or outlook(board, mine, state[1] | state[2]).wins:
            fruitless += 1
            continue
        fruitless = 0
        yield state
    raise InvalidRequest(f"no open positions of {plies.start} to {plies.stop - 1} plies were found; use fewer plies")


def _played(game: ConnectFour, plies: int, rng: np.random.Generator) -> State:
    """Return a position after random moves, fewer than `plies` if the game ended."""
    state = new_state(game)
    for _ in range(plies):
        actions = legal(game, state)
        if not actions:
            break
        core.play(game, state, int(rng.choice(actions)))
    return state
