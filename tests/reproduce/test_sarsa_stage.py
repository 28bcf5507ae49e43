"""Stages of SARSA(lambda): they train, are judged, and continue after an interruption with the same weights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import games
from laboratory.sarsa import SarsaTraining
from laboratory.stage import run_stage
from zerofleet.errors import ConfigurationError
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import SarsaStage, read_stage

RHOMBUS = games.make("chinese_checkers_rhombus", ply_cap="60")
PLAY = {"policy": "epsilon_greedy", "epsilon": 0.1, "pool": 6, "draw_value": 0.5}


def stage(**fields: Any) -> SarsaStage:
    wanted = {"kind": "sarsa", "id": "sarsa.arm.0", "seed": 0, "game": "chinese_checkers_rhombus"}
    found = read_stage(wanted | {"parameters": {"ply_cap": "60"}, "play": PLAY, "games": 4, "block": 2} | fields)
    assert isinstance(found, SarsaStage)
    return found


def test_the_thesis_plans_three_seeds_of_800_games():
    planned = [one.stage for one in plan(load_thesis("chinese_checkers_2p"), "quick", only=["sarsa"])]
    trained = [one for one in planned if isinstance(one, SarsaStage) and one.games == 800]
    assert [one.seed for one in trained] == [0, 1, 2]
    assert {(one.play.pool, one.sarsa.trace_decay, one.meetings[0].opponent) for one in trained} == {(6, 0.8, "greedy")}


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    whole = SarsaTraining(stage(), RHOMBUS, folder(tmp_path, "whole"))
    whole.train_to(4, on_games=lambda _: None)
    SarsaTraining(stage(), RHOMBUS, folder(tmp_path, "parts")).train_to(2, on_games=lambda _: None)
    resumed = SarsaTraining(stage(), RHOMBUS, folder(tmp_path, "parts"))
    assert resumed.games == 2
    resumed.train_to(4, on_games=lambda _: None)
    assert np.array_equal(resumed._learner.weights, whole._learner.weights)
    assert not np.array_equal(whole._learner.weights, SarsaTraining(stage(), RHOMBUS, folder(tmp_path, "new"))._learner.weights)


@pytest.mark.slow
def test_a_stage_meets_its_opponent_on_both_seats(tmp_path):
    meeting = {"name": "greedy", "subject": "network,model=1,by=value", "opponent": "random", "seats": [1, 2], "games": 2}
    found = asyncio.run(run_stage(stage(meetings=[meeting]), tmp_path, emit=lambda *_: None))
    assert [(tally["seat"], tally["at"], sum(tally["scores"].values())) for tally in found["tallies"]] == [(1, 4, 2), (2, 4, 2)]
    assert found["totals"]["games"] == 4


def test_another_game_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="chinese_checkers_rhombus"):
        SarsaTraining(stage(game="tic_tac_toe", parameters={}), games.make("tic_tac_toe"), tmp_path)


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir(exist_ok=True)
    return made
