"""Readings of TD(lambda): positions, rewards and cuts that `td_lambda` takes from the record of a game."""

import math

import numpy as np
import pytest
from td_games import GAME, OF_FIRST, play, read

from games import core, positions
from trainer.learners.td_lambda.learner import TdLambda
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, validate
from zerofleet.presets.td_lambda import TdLambdaSettings


def test_each_seat_learns_from_the_positions_after_its_own_moves():
    record = decode_record(play(1, opening=(4,))[0])
    found = read(record.SerializeToString())
    plies = range(1, len(record.moves) - 1)
    assert found.seats.tolist() == [ply % 2 for ply in plies]
    for row, ply in enumerate(plies):
        state = positions.replay(GAME, record.moves[: ply + 1], record.seed)
        packed = positions.encode_for(GAME, state, int(core.to_move(GAME, state)))
        np.testing.assert_array_equal(found.states[row], packed)
    assert found.rewards.tolist() == [float(score > 0) for score in record.scores]


def test_one_seat_alone_learns_where_the_record_names_it():
    for record in play(4, learner_seat="alternate"):
        seat = decode_record(record).learner_seat - 1
        assert set(read(record).seats.tolist()) <= {seat}
        assert len(read(record).seats) > 0


def test_every_ply_is_learned_from_the_point_of_view_of_one_player():
    record = decode_record(play(1, learner_seat="second")[0])
    found = read(record.SerializeToString(), TdLambdaSettings(hidden=8, successor="every_ply"))
    assert found.seats.tolist() == [1] * (len(record.moves) - 1)
    for row in range(len(found.seats)):
        state = positions.replay(GAME, record.moves[: row + 1], record.seed)
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, state, 1))


@pytest.mark.parametrize("learner_seat", ["all", "first"])
def test_the_first_players_view_is_learned_after_every_ply_of_both_players(learner_seat):
    record = decode_record(play(1, learner_seat=learner_seat)[0])
    flags = [move.flags & EXPLORATORY != 0 for move in record.searched]
    found = read(record.SerializeToString(), OF_FIRST)
    assert found.seats.tolist() == [0] * (len(record.moves) - 1)
    for row in range(len(found.seats)):
        state = positions.replay(GAME, record.moves[: row + 1], record.seed)
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, state, 0))
    cut = read(record.SerializeToString(), OF_FIRST.model_copy(update={"exploratory": "cut"}))
    assert {ply % 2 for ply, flag in enumerate(flags) if flag} == {0, 1}
    assert cut.cut.tolist() == flags[:-1]
    assert cut.end_cut.tolist() == [flags[-1], False]


def test_three_steps_in_the_first_players_view_agree_with_a_calculation_by_hand():
    """One hidden unit. The first player wins with the third stone: positions after plies 2, 3 and 4, then the reward 1."""
    record = next(one for one in play(200, opening=(0,)) if len(decode_record(one).moves) == 5)
    moves = list(decode_record(record).moves)
    learner = TdLambda(GAME, OF_FIRST.model_copy(update={"hidden": 1, "discount": 0.9, "trace_decay": 0.6}), seed=4)
    w, b = learner.net.hidden[:, 0].tolist(), float(learner.net.hidden_bias[0])
    u, c = float(learner.net.out[0]), float(learner.net.out_bias[0])
    learner.window.add(learner.window.read(validate(decode_record(record))))
    assert learner.step().samples == 3

    def squash(x):
        return 1 / (1 + math.exp(-x))

    def inputs(plies):  # the first player's stones are inputs 0 to 8, the second player's 9 to 17
        return {moves[ply] + 9 * (ply % 2) for ply in range(plies)}

    traces = [0.0] * 18
    e_b = e_u = e_c = 0.0
    for plies in (2, 3, 4):
        now = inputs(plies)
        h = squash(sum(w[i] for i in now) + b)
        v = squash(u * h + c)
        target = 1.0 if plies == 4 else 0.9 * squash(u * squash(sum(w[i] for i in inputs(plies + 1)) + b) + c)
        g_b = v * (1 - v) * u * h * (1 - h)
        traces = [0.54 * e + (g_b if i in now else 0.0) for i, e in enumerate(traces)]
        e_b, e_u, e_c = 0.54 * e_b + g_b, 0.54 * e_u + v * (1 - v) * h, 0.54 * e_c + v * (1 - v)
        step = 0.3 * (target - v)
        w = [weight + step * e for weight, e in zip(w, traces, strict=True)]
        b, u, c = b + step * e_b, u + step * e_u, c + step * e_c
    np.testing.assert_allclose(learner.net.hidden[:, 0], w, rtol=0, atol=1e-12)
    found = [learner.net.hidden_bias[0], learner.net.out[0], learner.net.out_bias[0]]
    np.testing.assert_allclose(found, [b, u, c], rtol=0, atol=1e-12)


def test_a_draw_has_the_reward_of_the_settings():
    drawn = next(record for record in play(40) if not any(decode_record(record).scores))
    assert read(drawn).rewards.tolist() == [0.0, 0.0]
    assert read(drawn, TdLambdaSettings(draw_reward=0.5)).rewards.tolist() == [0.5, 0.5]


def test_exploratory_moves_cut_the_experience_where_the_settings_say_so():
    record = decode_record(play(1)[0])
    flags = [move.flags & EXPLORATORY != 0 for move in record.searched]
    assert True in flags[:-1]
    found = read(record.SerializeToString(), TdLambdaSettings(exploratory="cut"))
    assert found.cut.tolist() == flags[:-1]
    assert found.end_cut.sum() == flags[-1]
    assert not read(record.SerializeToString()).cut.any()


def test_a_game_without_a_chosen_move_teaches_nothing():
    record = decode_record(play(1)[0])
    del record.searched[:]
    assert len(read(record.SerializeToString()).seats) == 0
