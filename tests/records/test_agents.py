"""Records of games in which agents sat: named by seat, their moves to be learnt from, without version and root value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import games
from trainer.samples import extract
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import RecordRejected
from zerofleet.presets import TrainSettings
from zerofleet.search import EXTERNAL, PlayedGame

GAME = games.make("tic_tac_toe")
UID = "0" * 32


def game_of_agents() -> PlayedGame:
    played = random_game(GAME, 3, version=0)
    return replace(played, versions=(EXTERNAL, EXTERNAL))


def half_game() -> PlayedGame:
    """An agent begins; a model answers."""
    played = random_game(GAME, 3, version=4)
    searched = tuple(replace(move, model_version=0) if move.ply % 2 == 0 else move for move in played.searched)
    return replace(played, versions=(EXTERNAL, 4), searched=searched)


def test_moves_of_agents_are_read_without_version_and_root_value() -> None:
    read = validate(decode_record(encode_record(game_of_agents(), worker_id="w", uid=UID, agents=("random", "greedy"))))
    assert list(read.record.seat_agents) == ["random", "greedy"]
    assert set(read.search.model_version) == {0}
    assert not read.search.root_value.any()
    assert len(read.search.ply) == len(read.record.moves)


def test_a_record_may_have_seats_of_agents_and_models() -> None:
    read = validate(decode_record(encode_record(half_game(), worker_id="w", uid=UID, agents=("random", ""))))
    assert [int(version) for version in read.search.model_version] == [0 if ply % 2 == 0 else 4 for ply in read.search.ply]


def test_moves_of_an_unnamed_agent_are_refused() -> None:
    with pytest.raises(RecordRejected, match="want a positive number"):
        validate(decode_record(encode_record(game_of_agents(), worker_id="w", uid=UID)))


def test_value_targets_of_agents_moves_come_from_the_score_alone() -> None:
    read = validate(decode_record(encode_record(half_game(), worker_id="w", uid=UID, agents=("random", ""))))
    samples = extract(read, TrainSettings(search_value_share=0.5))
    for n, ply in enumerate(read.search.ply):
        mover = int(read.movers[ply])
        own = read.scores[mover] if ply % 2 == 0 else 0.5 * read.scores[mover] + 0.5 * read.search.root_value[n, mover]
        assert samples.value[n, 0] == pytest.approx(own)


def test_games_of_agents_have_no_plies_left_target() -> None:
    agents = validate(decode_record(encode_record(game_of_agents(), worker_id="w", uid=UID, agents=("random", "random"))))
    models = validate(decode_record(encode_record(random_game(GAME, 3), worker_id="w", uid=UID)))
    assert np.array_equal(extract(agents, TrainSettings()).plies_left, np.full(len(agents.search.ply), -1, np.float32))
    assert (extract(models, TrainSettings()).plies_left >= 0).all()
