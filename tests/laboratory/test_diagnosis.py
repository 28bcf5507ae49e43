"""Diagnosis of a part of a trial describes the games of that part alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import games
from laboratory.diagnosis import since
from selfplay_worker.diagnostics import Diagnostics
from zerofleet.contracts.played import FULL_SEARCH
from zerofleet.contracts.records.samples import random_game
from zerofleet.search import PlayedGame, SearchedMove

TIC_TAC_TOE = games.make("tic_tac_toe")
NOTHING = Diagnostics().figures


def played(moves: list[int], *visits: list[int]) -> PlayedGame:
    """Return a game whose first plies were searched with these visits."""
    searched = tuple(
        SearchedMove(
            ply=ply,
            model_version=1,
            actions=np.arange(len(counts), dtype=np.int32),
            visits=np.array(counts, dtype=np.int32),
            target=np.zeros(0, dtype=np.uint16),
            root_value=np.zeros(2, dtype=np.float32),
            flags=FULL_SEARCH,
        )
        for ply, counts in enumerate(visits)
    )
    return replace(random_game(TIC_TAC_TOE, 0), opening_plies=0, moves=np.array(moves, dtype=np.int32), searched=searched)


def test_only_games_after_the_first_reading_are_described():
    diagnostics = Diagnostics()
    diagnostics.note(played([0, 3, 1, 4, 2], [1, 1], [1, 1]))  # a win in one is taken
    before = diagnostics.figures
    diagnostics.note(played([0, 3, 1, 4, 8, 5], [1, 1, 1, 1]))  # one is overlooked, one taken; only the last position is new
    diagnostics.note(replace(played([0, 3, 1], [1]), resigned_seat=1))
    found = since(before, diagnostics.figures)
    assert found == {
        "games": 2,
        "resigned_share": 0.5,
        "plies_per_game": 4.5,
        "samples": 2,
        "target_entropy_nat": pytest.approx(math.log(4) / 2),
        "positions": 9,
        "new_positions": 1,
        "new_positions_share": pytest.approx(1 / 9),
        "wins_in_one": 2,
        "wins_in_one_overlooked": 1,
        "wins_in_one_overlooked_share": 0.5,
    }


def test_the_parts_of_a_trial_add_up():
    diagnostics, readings = Diagnostics(), [NOTHING]
    for seed in range(12):
        diagnostics.note(random_game(TIC_TAC_TOE, seed))
        readings.append(diagnostics.figures)
    whole = since(NOTHING, readings[-1])
    parts = [since(readings[at], readings[at + 4]) for at in (0, 4, 8)]
    for name in ("games", "samples", "positions", "new_positions", "wins_in_one", "wins_in_one_overlooked"):
        assert whole[name] == sum(part[name] for part in parts) > 0
    entropy = sum(part["target_entropy_nat"] * part["samples"] for part in parts)
    assert whole["target_entropy_nat"] == pytest.approx(entropy / whole["samples"])


def test_shares_of_nothing_are_none():
    found = since(NOTHING, NOTHING)
    assert [name for name, value in found.items() if value is None] == [
        "resigned_share",
        "plies_per_game",
        "target_entropy_nat",
        "new_positions_share",
        "wins_in_one_overlooked_share",
    ]
