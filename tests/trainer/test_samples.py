"""Samples of a game: which positions, seen by whom, with which targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from games import core
from games.kit import bits
from trainer.network import new_network
from trainer.samples import _replies, extract, require_target
from zerofleet.contracts.played import REDUCED
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import ConfigurationError
from zerofleet.presets import TrainSettings

UID = "0" * 32


def validated(game, seed=1, **changes):
    played = replace(random_game(game, seed), **changes)
    return validate(decode_record(encode_record(played, worker_id="w", uid=UID)))


@pytest.fixture(params=["tic_tac_toe", "connect_four"])
def played(request, game, connect_four):
    return validated({"tic_tac_toe": game, "connect_four": connect_four}[request.param])


def test_each_fully_searched_move_is_one_sample_encoded_for_its_mover(played):
    samples = extract(played, TrainSettings())
    spec = played.game.spec()
    assert len(samples) == len(played.search.ply)
    for row, ply in enumerate(played.search.ply):
        wanted = np.zeros(spec.packed_bytes, np.uint8)
        core.encode(played.game, played.states[ply], int(played.movers[ply]), wanted)
        np.testing.assert_array_equal(samples.states[row], wanted)


def test_moves_searched_with_a_small_budget_give_no_samples(game):
    whole = random_game(game, 5)
    searched = tuple(replace(move, flags=move.flags if move.ply % 2 else 0) for move in whole.searched)
    played = validated(game, seed=5, searched=searched)
    samples = extract(played, TrainSettings())
    every = extract(validated(game, seed=5), TrainSettings())
    np.testing.assert_array_equal(samples.states, every.states[1::2])
    np.testing.assert_array_equal(samples.policy, every.policy[1::2])


def test_policy_targets_are_aligned_with_legal_actions(played):
    samples = extract(played, TrainSettings())
    search = played.search
    np.testing.assert_allclose(samples.policy.astype(np.float32).sum(axis=1), 1.0, atol=2e-3)
    for row in range(len(samples)):
        entries = slice(search.start[row], search.start[row + 1])
        wanted = dict(zip(search.actions[entries].tolist(), search.policy[entries].tolist(), strict=True))
        for action, weight in zip(samples.legal[row].tolist(), samples.policy[row].tolist(), strict=True):
            assert weight == pytest.approx(wanted.get(action, 0.0), abs=1e-3)
            assert action >= 0 or weight == 0


def test_actions_without_visits_are_legal_with_target_zero(game):
    whole = random_game(game, 5, with_targets=False)
    first = whole.searched[0]
    pruned = replace(first, actions=first.actions[2:4], visits=np.array([30, 10], np.int32))
    played = validated(game, seed=5, searched=(pruned, *whole.searched[1:]), moves=whole.moves)
    samples = extract(played, TrainSettings())
    assert samples.legal[0].tolist() == list(range(9))
    assert samples.policy[0].tolist() == [0, 0, 0.75, 0.25, 0, 0, 0, 0, 0]


def test_the_value_target_is_the_result_from_the_point_of_view_of_the_player_to_move(played):
    samples = extract(played, TrainSettings())
    for row, ply in enumerate(played.search.ply):
        mover = int(played.movers[ply])
        assert samples.value[row].tolist() == [played.scores[mover], played.scores[1 - mover]]


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_search_value_share_mixes_the_root_value_into_the_target(played, share):
    samples = extract(played, TrainSettings(search_value_share=share))
    for row, ply in enumerate(played.search.ply):
        mover = int(played.movers[ply])
        wanted = (1 - share) * played.scores[mover] + share * played.search.root_value[row][mover]
        assert samples.value[row, 0] == pytest.approx(wanted, abs=1e-6)


def test_the_first_sample_has_no_stones_and_the_second_has_one(game):
    samples = extract(validated(game), TrainSettings())
    planes = bits.unpack(samples.states, game.spec().planes)
    assert planes[0].sum() == 0
    assert (planes[1][0].sum(), planes[1][1].sum()) == (0, 1)  # the mover sees one stone, the other player's


def test_the_plies_left_target_falls_to_one_ply(played):
    samples = extract(played, TrainSettings())
    wanted = [(len(played.movers) - ply) / played.game.spec().max_plies for ply in played.search.ply]
    assert samples.plies_left.tolist() == pytest.approx(wanted)
    assert (samples.opponents == -1).all()  # nobody chooses in secret here


def test_a_resigned_game_has_no_plies_left_target(game):
    whole = random_game(game, 5)
    given_up = {"moves": whole.moves[:3], "searched": whole.searched[:3], "resigned_seat": 1, "scores": (1.0, -1.0)}
    samples = extract(validated(game, seed=5, **given_up), TrainSettings())
    assert samples.plies_left.tolist() == [-1.0, -1.0, -1.0]


def test_a_move_sampled_from_the_policy_without_visits_gives_a_sample(game):
    whole = random_game(game, 5)
    searched = tuple(replace(move, visits=np.zeros_like(move.visits)) for move in whole.searched)
    samples = extract(validated(game, seed=5, searched=searched), TrainSettings())
    np.testing.assert_array_equal(samples.policy, extract(validated(game, seed=5), TrainSettings()).policy)


def test_the_counter_target_is_refused_for_a_game_without_simultaneous_choices(game):
    require_target(game.spec(), "search")
    with pytest.raises(ConfigurationError, match=r"tic_tac_toe defines no action.*set train\.policy_target=search"):
        require_target(game.spec(), "counter")


def test_samples_of_reduced_searches_have_the_reduced_weight_or_are_left_out(game):
    whole = random_game(game, 5)
    searched = tuple(replace(move, flags=move.flags | (REDUCED if move.ply % 2 else 0)) for move in whole.searched)
    played = validated(game, seed=5, searched=searched)
    weights = extract(played, TrainSettings(reduced_weight=0.25)).weight
    assert weights.tolist() == [0.25 if move.ply % 2 else 1.0 for move in searched]
    without = extract(played, TrainSettings(reduced_weight=0.0))
    assert without.weight.tolist() == [1.0] * len(without)
    np.testing.assert_array_equal(without.states, extract(played, TrainSettings()).states[::2])


def test_the_reply_is_the_move_of_the_next_player(played):
    samples = extract(played, TrainSettings())
    moves = played.record.moves
    wanted = [moves[ply + 1] if ply + 1 < len(moves) else -1 for ply in played.search.ply]
    assert samples.reply.tolist() == wanted


def test_another_move_of_the_same_player_is_no_reply():
    movers, moves = np.array([0, 0, 1, 0, 0], np.int8), np.array([5, 6, 7, 8, 9])
    assert _replies(movers, moves, np.array([0, 1, 2, 3, 4])).tolist() == [-1, 7, 8, -1, -1]


@pytest.mark.parametrize("name", ["rock_paper_scissors", "take_six"])
def test_games_without_perfect_information_have_no_replies(name, small):
    samples = extract(validated(core.make(name), seed=5), TrainSettings())
    assert (samples.reply == -1).all()
    with pytest.raises(ConfigurationError, match=rf"reply, which needs perfect information; {name} has"):
        new_network(core.make(name).spec(), small.model_copy(update={"heads": ("reply",)}), seed=1)


def test_games_of_perfect_information_have_plies_left_targets(game, connect_four):
    for chosen in (game, connect_four):
        assert (extract(validated(chosen, seed=5), TrainSettings()).plies_left > 0).all()
