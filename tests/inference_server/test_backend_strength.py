"""Comparison of backends by strength: shares, paired differences, and matches of the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import games
from benchmarks.backend_strength import Backends, compared, of_match, paired_difference, played, same_games
from zerofleet.evaluators.base import LeafBatch
from zerofleet.strength.learning.positions import ScoredPosition
from zerofleet.strength.matches import Player
from zerofleet.strength.matches.meeting import terms_of_games

CONNECT_FOUR = games.make("connect_four")
FIRST_COLUMN, LAST_COLUMN = 0, 6
POSITIONS = [
    ScoredPosition((), tuple(range(7)), (-2.0, -1.0, 0.0, 1.0, 0.0, -1.0, -2.0)),
    ScoredPosition((3, 3), tuple(range(7)), (2.0, -1.0, 0.0, 3.0, 0.0, -1.0, -2.0)),
]


class PreferringNetwork:
    """Network with nearly all of the prior on one column, wherever it is legal."""

    backend, precision = "fake", "float32"

    def __init__(self, column: int) -> None:
        self._column = column

    def evaluate(self, states, legal):
        prior = np.where(legal[0] == self._column, 100.0, 1.0) * (legal[0] >= 0)
        policy = (prior / prior.sum(axis=1, keepdims=True)).astype(np.float16)
        return policy, np.zeros((len(policy), 2), np.float32)


def pair_of(first: int, second: int) -> Backends:
    return Backends({"one": PreferringNetwork(first), "other": PreferringNetwork(second)})


def terms(count: int):
    players = (Player.model(1), Player.model(2))
    return terms_of_games(CONNECT_FOUR, players, games=count, seed=0, opening_plies=3)


async def test_each_version_is_answered_by_its_own_network_and_its_rows_are_counted():
    both = pair_of(FIRST_COLUMN, LAST_COLUMN)
    batch = LeafBatch(np.zeros((3, 16), np.uint8), np.tile(np.arange(7, dtype=np.int16), (3, 1)))
    found = await both.evaluate(batch, version=2)
    assert found.policy.argmax(axis=1).tolist() == [LAST_COLUMN] * 3
    assert both.rows == [0, 3]


async def test_moves_of_each_backend_are_judged_by_sign_and_by_score():
    first, last = await compared(CONNECT_FOUR, pair_of(FIRST_COLUMN, LAST_COLUMN), POSITIONS, versions=2, simulations=0)
    assert first.actions.tolist() == [FIRST_COLUMN] * 2
    assert first.kept.tolist() == [False, True]  # of the second position the first column wins, though later than another
    assert not first.exact.any()
    assert not last.kept.any()


def test_backends_that_err_in_the_same_positions_do_not_differ_and_have_no_interval():
    marks = np.array([True, False, True, True])
    assert paired_difference(marks, marks) == (0.0, 0.0)


def test_the_paired_difference_is_in_points_of_all_positions():
    own, base = np.array([True] * 30 + [False] * 70), np.array([True] * 20 + [False] * 80)
    middle, half = paired_difference(own, base)
    assert middle == pytest.approx(10.0)
    assert half == pytest.approx(5.91, abs=0.01)


@pytest.mark.slow
async def test_equal_backends_play_the_same_game_with_both_seatings_and_share_the_points():
    board = await played(terms(6), pair_of(FIRST_COLUMN, FIRST_COLUMN), simulations=8)
    assert same_games(board) == board.groups == 3
    assert of_match(board).startswith("6 games")
    assert "50.00% of the points" in of_match(board)


@pytest.mark.slow
async def test_different_backends_play_different_games():
    board = await played(terms(6), pair_of(FIRST_COLUMN, LAST_COLUMN), simulations=2)
    assert same_games(board) < board.groups
