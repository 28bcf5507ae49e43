"""Rooms to search in, and positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import words_of
from zerofleet.agents.by_game.rhombus import SearchOptions
from zerofleet.agents.by_game.rhombus.agent import searcher_room
from zerofleet.agents.by_game.rhombus.work import Work
from zerofleet.cli.bench.rhombus_trials import sample_positions

GAME = ChineseCheckersRhombus()


@pytest.fixture(scope="session")
def room() -> Callable[..., Work]:
    """Makes rooms by the options of the search."""

    def make(plies: int = 4, *, game: ChineseCheckersRhombus = GAME, **options: object) -> Work:
        work = searcher_room(game, SearchOptions.model_validate({"bits": 14, **options}), plies)
        work.control[0].limit = 2**62
        return work

    return make


@pytest.fixture(scope="session")
def positions(room: Callable[..., Work]) -> np.ndarray:
    """500 positions of as many games, uint64 [500, 5]."""
    return sample_positions(GAME, room(), count=500, seed=1)


@pytest.fixture(scope="session")
def place() -> Callable[..., np.ndarray]:
    """Makes positions from the names of cells, such as `a1 b2`."""

    def make(mine: str, other: str, *, mover: int = 0, plies: int = 0, words: int = 5) -> np.ndarray:
        numbers = [[9 * (int(name[1]) - 1) + "abcdefghi".index(name[0]) for name in names.split()] for names in (mine, other)]
        state = np.zeros(words, dtype=np.uint64)
        state[:5] = [plies + (plies + mover) % 2, *words_of(numbers[0]), *words_of(numbers[1])]
        return state

    return make
