"""Slots that descend side by side, as in a block larger than the caches, play the games that each plays alone."""

import pytest
from search_bench import TIC_TAC_TOE, answer_hashed

from zerofleet.search import PlayedGame, SearchBlock, SearchSettings
from zerofleet.search.window import CACHE_BYTES, WINDOW

SLOTS = WINDOW + 3
CASES = {
    "puct": {},
    "without proofs": {"prove_values": False},
    "kept subtrees and noise": {"reuse_subtree": True, "temperature": 1.0, "temperature_plies": 9},
    "several leaves and a cache": {"leaves_per_game": 4, "cache_positions": 64},
    "gumbel": {"root_policy": "gumbel", "gumbel_noise": True},
}


def played(settings: SearchSettings, seeds: list[int]) -> list[PlayedGame]:
    """Return the games of a block with a slot for each seed."""
    block = SearchBlock(TIC_TAC_TOE, settings, slots=len(seeds))
    assert (block._arena.nodes.nbytes + block._arena.edges.nbytes > CACHE_BYTES) == (len(seeds) > 1)
    for slot, seed in enumerate(seeds):
        block.begin(slot, seed=seed, versions=[1, 1])
    leaves = block.advance()
    while len(leaves.batch):
        leaves = block.search_on(*answer_hashed(leaves, 2))
    return [block.take(slot) for slot in range(len(seeds))]


@pytest.mark.parametrize("name", CASES)
def test_slots_side_by_side_play_the_games_that_each_plays_alone(name):
    settings = SearchSettings(simulations=3_000, fast_simulations=30, full_search_share=0.05, **CASES[name])
    seeds = list(range(SLOTS))
    for seed, game in zip(seeds, played(settings, seeds), strict=True):
        (alone,) = played(settings, [seed])
        assert game.moves.tolist() == alone.moves.tolist()
        assert len(game.searched) == len(alone.searched) > 0
        for move, other in zip(game.searched, alone.searched, strict=True):
            assert move.visits.tolist() == other.visits.tolist()
            assert move.root_value.tolist() == other.root_value.tolist()
