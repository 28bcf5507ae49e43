"""What a position of Othello is worth at first sight."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from games.kit.bits import unpack


def corners(game: Game, state: State) -> tuple[int, int]:
    """How many corners each player holds, from the picture."""
    rows = [line.split()[1:] for line in game.draw(state).splitlines()[1:-1]]
    held = [rows[y][x] for y in (0, -1) for x in (0, -1)]
    return held.count("X"), held.count("O")


def takeable(game: Game, state: State, player: int) -> int:
    """How many cells a player could take if it were their turn, from the planes."""
    planes = unpack(games.encode_for(game, state, player), game.spec().planes)
    return int(planes[2].sum())


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 6, 8])
def test_the_estimate_counts_cells_to_take_and_corners(size: int) -> None:
    game, rng = games.make("othello", size=size), np.random.default_rng(size)
    out = np.empty(2, dtype=np.float32)
    seen = set()
    for _ in range(30):
        state = games.new_state(game)
        while not core.is_over(game, state):
            core.play(game, state, int(rng.choice(games.legal(game, state))))
            core.estimate(game, state, out)
            first, second = corners(game, state)
            lead = takeable(game, state, 0) - takeable(game, state, 1) + 8 * (first - second)
            assert out.tolist() == pytest.approx([lead / 79, -lead / 79])
            seen.add((first, second))
    assert len(seen) > 3


def test_the_estimate_is_zero_at_the_start() -> None:
    game, out = games.make("othello"), np.ones(2, dtype=np.float32)
    core.estimate(game, games.new_state(game), out)
    assert out.tolist() == [0.0, 0.0]
