"""One pass in place of two: `search_on` has the results of `absorb` and `advance`."""

import numpy as np
import pytest
from search_bench import TIC_TAC_TOE, answer_hashed
from toys.coin import Coin

from zerofleet.search import SearchBlock, SearchSettings

CASES = {
    "puct": (TIC_TAC_TOE, {}),
    "several leaves and a cache": (TIC_TAC_TOE, {"leaves_per_game": 4, "cache_positions": 64}),
    "gumbel and a cache": (TIC_TAC_TOE, {"root_policy": "gumbel", "cache_positions": 256}),
    "hidden information": (Coin(), {"information": "determinise"}),
}


def begun(game, settings, slots=6):
    block = SearchBlock(game, settings, slots=slots)
    for slot in range(6):
        block.begin(slot, seed=slot, versions=[1] * game.spec().num_players)
    return block


def assert_same_game(played, wanted):
    assert played.moves.tolist() == wanted.moves.tolist()
    for move, other in zip(played.searched, wanted.searched, strict=True):
        assert move.visits.tolist() == other.visits.tolist()
        assert move.root_value.tolist() == other.root_value.tolist()


@pytest.mark.parametrize("name", CASES)
def test_one_pass_asks_for_the_same_leaves_and_plays_the_same_games_as_two(name):
    game, changes = CASES[name]
    settings = SearchSettings(simulations=24, **changes)
    players = game.spec().num_players
    two, one = begun(game, settings), begun(game, settings)
    expected, found = two.advance(), one.advance()
    steps = 0
    while len(expected.batch):
        for name_of_array in ("states", "legal"):
            np.testing.assert_array_equal(getattr(found.batch, name_of_array), getattr(expected.batch, name_of_array))
        np.testing.assert_array_equal(found.versions, expected.versions)
        answer = answer_hashed(expected, players)
        two.absorb(*answer)
        expected, found = two.advance(), one.search_on(*answer)
        steps += 1
    assert steps > 10
    assert not len(found.batch)
    assert one.counters == two.counters
    for slot in range(6):
        assert_same_game(one.take(slot), two.take(slot))


@pytest.mark.parametrize("name", CASES)
def test_games_that_begin_switch_version_or_are_dropped_while_leaves_wait_are_the_same_in_one_pass(name):
    game, changes = CASES[name]
    players = game.spec().num_players
    blocks = two, one = [begun(game, SearchSettings(simulations=24, **changes), slots=7) for _ in range(2)]
    expected, found = two.advance(), one.advance()
    step = 0
    while len(expected.batch):
        assert found.batch.states.tobytes() == expected.batch.states.tobytes()
        assert found.versions.tolist() == expected.versions.tolist()
        answer, step = answer_hashed(expected, players), step + 1
        for block in blocks:
            if step == 2:  # while leaves wait
                block.begin(6, seed=6, versions=[1] * players)
            if step == 4:
                block.set_versions(0, [2] * players)
            if step == 6:
                block.set_resign_threshold(-0.2)
        two.absorb(*answer)
        if step == 8:
            one.absorb(*answer)
            for block in blocks:
                block.abandon(1)
            expected, found = two.advance(), one.advance()
        else:
            expected, found = two.advance(), one.search_on(*answer)
    assert step > 10
    assert one.counters == two.counters
    assert 1 in one.idle()
    for slot in (0, 2, 3, 4, 5, 6):
        assert_same_game(one.take(slot), two.take(slot))


def test_a_wrong_evaluation_leaves_the_block_waiting_for_the_same_leaves():
    block = begun(TIC_TAC_TOE, SearchSettings(simulations=8))
    leaves = block.advance()
    policy, value = answer_hashed(leaves, 2)
    with pytest.raises(ValueError, match="do not fit"):
        block.search_on(policy[:1], value[:1])
    with pytest.raises(ValueError, match="value"):
        block.search_on(policy, np.full_like(value, 2.0))
    assert len(block.advance().batch) == len(leaves.batch)
