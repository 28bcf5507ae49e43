"""Positions of Abalone for the tests of its players."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.abalone_ablation import middle_games
from games.abalone import Abalone, bitboard
from games.core import State


@pytest.fixture(scope="session")
def at() -> Callable[..., State]:
    """Makes a position from the cells of both players, such as `at("A1 A2", "B2")`."""

    def make(first: str, second: str, plies: int = 0) -> State:
        return np.array([bitboard.word(first), bitboard.word(second), plies], dtype=np.uint64)

    return make


@pytest.fixture(scope="session")
def battles() -> list[State]:
    """Positions in which marbles are in contact and some are lost."""
    return middle_games(Abalone(), 30, seed=1)
