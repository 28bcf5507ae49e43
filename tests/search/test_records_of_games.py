"""What search plays, records take: every kind of search gives games that encode, decode and pass validation."""

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_seat_loses, drive
from toys.counting import Counting

from zerofleet.contracts.records import decode_record, encode_record, new_uid, validate
from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings

KINDS = {
    "self-play": {},
    "forced playouts and caps": {"forced_playouts": 2.0, "full_search_share": 0.5, "fast_simulations": 5},
    "gumbel": {"root_policy": "gumbel"},
    "gumbel of few visits": {"root_policy": "gumbel", "simulations": 2, "gumbel_value_scale": 3.0},
    "leaves and cache": {"leaves_per_game": 5, "cache_positions": 256},
    "resignation": {"resign_threshold": -0.3, "resign_control_share": 0.4},
    "one simulation": {"simulations": 1},
}


def validated(played, number):
    uid = new_uid(0, "worker", number, 0)
    return validate(decode_record(encode_record(played, worker_id="worker", uid=uid)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR, Counting()], ids=lambda game: game.spec().name)
def test_games_of_every_kind_are_accepted(game, kind):
    players = game.spec().num_players
    block = SearchBlock(game, SearchSettings(**({"simulations": 25} | KINDS[kind])), slots=8)
    for slot in range(8):
        block.begin(slot, seed=slot, versions=[1, 2, 3][:players], opening=[slot % 3])
    drive(block, answer_hashed)
    for slot in range(8):
        played = block.take(slot)
        game_record = validated(played, slot)
        assert game_record.search.ply.tolist() == [move.ply for move in played.searched]
        np.testing.assert_array_equal(game_record.scores, np.array(played.scores, dtype=np.float32))
        for row, move in enumerate(played.searched):
            own = slice(game_record.search.start[row], game_record.search.start[row + 1])
            target = move.target / 65535 if len(move.target) else move.visits / move.visits.sum()
            np.testing.assert_allclose(game_record.search.policy[own], target, atol=2e-5)


def test_a_resignation_before_the_first_move_is_accepted():
    settings = SearchSettings(simulations=10, resign_threshold=-0.5, resign_control_share=0.0)
    block = SearchBlock(TIC_TAC_TOE, settings, slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    drive(block, answer_seat_loses)
    played = block.take(0)
    assert (len(played.moves), played.resigned_seat) == (0, 0)
    validated(played, 0)


def test_games_with_external_seats_are_accepted():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings.for_play(TIC_TAC_TOE.spec(), 10), slots=1)
    block.begin(0, seed=0, versions=[EXTERNAL, 5])
    while not block.finished():
        drive(block)
        if block.waiting():
            block.play(0, next(action for action in range(9) if action not in block.moves(0)))
    assert set(validated(block.take(0), 0).search.model_version.tolist()) == {5}


def test_mean_values_of_one_stay_within_the_bounds_of_a_record():
    def answer_sure(leaves, players):
        policy, value = answer_hashed(leaves, players)
        value[:, 0], value[:, 1] = 1.0005, -1.0005
        return policy, value

    block = SearchBlock(CONNECT_FOUR, SearchSettings(simulations=33), slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    drive(block, answer_sure)
    validated(block.take(0), 0)
