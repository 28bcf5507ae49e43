"""Figures of self-play agree with a count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import games
from laboratory.diagnosis import Diagnosis
from trainer.replay import AcceptedGame
from trainer.samples import extract
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import TrainSettings


def accepted(game: games.Game, seed: int) -> AcceptedGame:
    uid = f"{seed:032x}"
    payload = encode_record(random_game(game, seed), worker_id="test", uid=uid)
    return AcceptedGame(uid, payload, extract(validate(decode_record(payload)), TrainSettings()))


def wins_by_hand(game: games.Game, moves: list[int]) -> tuple[int, int]:
    """Return the plies with a winning move, and those where it was not played."""
    offered = missed = 0
    for ply, played in enumerate(moves):
        state = games.replay(game, moves[:ply])
        mover = ply % 2
        wins = []
        for action in games.legal(game, state):
            after = games.replay(game, [*moves[:ply], action])
            if not games.legal(game, after) and games.final_scores(game, after)[mover] > 0:
                wins.append(action)
        offered += bool(wins)
        missed += bool(wins) and played not in wins
    return offered, missed


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_overlooked_wins_are_those_a_replay_finds(name):
    game = games.make(name)
    played = [accepted(game, seed) for seed in range(20)]
    diagnosis = Diagnosis(game)
    diagnosis.note(played)
    found = diagnosis.take()
    by_hand = np.sum([wins_by_hand(game, list(decode_record(one.payload).moves)) for one in played], axis=0)
    assert (found["wins_in_one"], found["wins_in_one_overlooked"]) == tuple(by_hand)
    assert found["wins_in_one_overlooked"] > 0


def test_positions_and_entropy_are_those_of_the_samples():
    game = games.make("tic_tac_toe")
    played = [accepted(game, seed) for seed in range(10)]
    diagnosis = Diagnosis(game)
    diagnosis.note(played[:5])
    first = diagnosis.take()
    diagnosis.note(played)
    second = diagnosis.take()
    early, ever = ({row.tobytes() for one in some for row in one.samples.states} for some in (played[:5], played))
    assert (first["distinct_positions"], first["new_positions"]) == (len(early), len(early))
    assert second["distinct_positions"] == second["distinct_positions_ever"] == len(ever)
    assert second["new_positions"] == len(ever - early)
    entropies = [-sum(float(p) * math.log(float(p)) for p in row if p > 0) for one in played for row in one.samples.policy]
    assert second["target_entropy_nat"] == pytest.approx(np.mean(entropies))
    assert (second["games"], second["resigned_share"]) == (10, 0.0)


def test_hidden_information_shows_no_wins():
    diagnosis = Diagnosis(games.make("take_six"))
    found = diagnosis.take()
    assert found["wins_in_one"] is None
    assert found["resigned_share"] is None
