"""Wins in one: positions that have them, and the count of those that a model overlooks."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import games
from benchmarks import wins_in_one as module
from benchmarks.wins_in_one import WinInOne, drawn_positions, overlooked, winning_moves, wins_in_one
from games.positions import replay
from zerofleet.testing.fakes import FunctionEvaluator

CONNECT_FOUR = games.make("connect_four")
COLUMN = (3, 0, 3, 0, 3, 0)  # three on each other in columns d and a; the first player moves
ROW = (1, 1, 2, 2, 3, 3)  # b1 c1 d1: a1 and e1 win
QUIET = (3, 3)


def preferring(column: int) -> FunctionEvaluator:
    """Return an evaluator with nearly all of the prior on one column, wherever it is legal."""

    def evaluate(batch, version):
        prior = np.where(batch.legal == column, 100.0, 1.0) * (batch.legal >= 0)
        return (prior / prior.sum(axis=1, keepdims=True)).astype(np.float16), np.zeros((len(prior), 2), np.float32)

    return FunctionEvaluator(evaluate)


def test_moves_that_end_the_game_as_a_win_are_found_for_both_players():
    assert winning_moves(CONNECT_FOUR, replay(CONNECT_FOUR, COLUMN)) == {3}
    assert winning_moves(CONNECT_FOUR, replay(CONNECT_FOUR, ROW)) == {0, 4}
    assert winning_moves(CONNECT_FOUR, replay(CONNECT_FOUR, (*COLUMN, 6))) == {0}
    assert winning_moves(CONNECT_FOUR, replay(CONNECT_FOUR, QUIET)) == set()


def test_a_position_counts_once_and_only_if_it_has_a_win_and_another_move():
    other_order = (2, 2, 1, 1, 3, 3)  # the same stones as in ROW
    assert wins_in_one(CONNECT_FOUR, [QUIET, COLUMN, COLUMN, ROW, other_order]) == [
        WinInOne(COLUMN, frozenset({3})),
        WinInOne(ROW, frozenset({0, 4})),
    ]


async def test_the_policy_alone_overlooks_what_its_prior_is_not_on_and_two_simulations_nothing():
    tasks = wins_in_one(CONNECT_FOUR, [COLUMN, ROW, (*COLUMN, 6)])
    for column, missed in ((3, [1, 2]), (4, [0, 2]), (0, [0]), (6, [0, 1, 2])):
        evaluator = preferring(column)
        assert await overlooked(CONNECT_FOUR, evaluator, tasks, version=1, simulations=0) == [tasks[i] for i in missed]
        assert await overlooked(CONNECT_FOUR, evaluator, tasks, version=1, simulations=2) == []


@pytest.mark.slow
def test_the_positions_are_those_of_the_judge_and_the_same_each_time():
    drawn = drawn_positions(CONNECT_FOUR, judged=20, seed=3)
    assert drawn == drawn_positions(CONNECT_FOUR, judged=20, seed=3)
    assert len(drawn) == len(set(drawn)) == 60
    found = wins_in_one(CONNECT_FOUR, drawn)
    assert 0 < len(found) < 60
    assert all(winning_moves(CONNECT_FOUR, replay(CONNECT_FOUR, one.moves)) == one.wins for one in found)


def test_no_position_with_a_win_is_an_error_with_the_next_step(monkeypatch, tmp_path):
    class Loaded:
        def load(self, version):
            pass

    monkeypatch.setattr(module, "Networks", lambda *_, **__: Loaded())
    monkeypatch.setattr(sys, "argv", ["wins_in_one", str(tmp_path), "--version", "1", "--judged", "0"])
    with pytest.raises(SystemExit, match=r"none of the 0 positions drawn has a win in one.*raise --judged"):
        module.main()
