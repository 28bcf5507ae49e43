"""What a slot plays depends on its seed and on evaluations, and on nothing else: no neighbour, no slot, no cache."""

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, compiled_tree, drive, searched_block

from zerofleet.search import SearchBlock, SearchSettings

KINDS = {
    "self-play": {"forced_playouts": 2.0, "full_search_share": 0.5, "fast_simulations": 10},
    "several leaves": {"leaves_per_game": 6},
    "gumbel": {"root_policy": "gumbel"},
    "gumbel, several leaves": {"root_policy": "gumbel", "leaves_per_game": 3},
}


def as_text(played):
    """Everything a game is, for comparison."""
    searched = [
        (m.ply, m.actions.tolist(), m.visits.tolist(), m.target.tolist(), m.root_value.tolist(), m.flags)
        for m in played.searched
    ]
    return repr((played.moves.tolist(), searched, played.scores, played.resigned_seat, played.resignation_control))


def played_games(settings, seeds, *, game=TIC_TAC_TOE, slots=None):
    """Play one game for each seed, refilling slots as they become free; return the games by seed."""
    seeds = list(seeds)
    waiting = seeds[::-1]
    found = {}
    block = SearchBlock(game, settings, slots=slots or len(seeds))
    while len(found) < len(seeds):
        for slot in block.idle():
            if waiting:
                seed = waiting.pop()
                block.begin(slot, seed=seed, versions=[1, 2 if seed % 2 else 1], tag=seed)
        drive(block)
        for slot in block.finished():
            played = block.take(slot)
            found[played.tag] = as_text(played)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_game_is_the_same_alone_and_among_others_in_any_slot(kind):
    settings = SearchSettings(simulations=24, **({"fast_simulations": 8} | KINDS[kind]))
    together = played_games(settings, range(12))
    assert played_games(settings, range(12)) == together
    assert played_games(settings, reversed(range(12))) == together
    assert played_games(settings, range(12), slots=5) == together
    for seed in (0, 7):
        assert played_games(settings, [seed])[seed] == together[seed]
    assert len(set(together.values())) > 6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entries", [2, 64, 4096])
def test_a_cache_changes_no_game(kind, entries):
    settings = SearchSettings(simulations=24, **({"fast_simulations": 8} | KINDS[kind]))
    cached = settings.model_copy(update={"cache_positions": entries})
    assert played_games(cached, range(12)) == played_games(settings, range(12))


def test_a_cache_saves_evaluations_between_games_and_within_one():
    settings = SearchSettings(simulations=60)
    asked = {}
    for entries in (0, 1 << 14):
        block = SearchBlock(TIC_TAC_TOE, settings.model_copy(update={"cache_positions": entries}), slots=16)
        for slot in range(16):
            block.begin(slot, seed=slot, versions=[1, 1])
        asked[entries] = 0
        while rows := len((leaves := block.advance()).batch):
            block.absorb(*answer_hashed(leaves, 2))
            asked[entries] += rows
        assert (block.counters.cache_hits > 0) == (entries > 0)
    assert asked[1 << 14] < asked[0] / 2


@pytest.mark.parametrize(("entries", "held"), [(0, 1), (1, 2), (2, 2), (3, 4), (1000, 1024)])
def test_a_cache_has_a_power_of_two_of_entries_and_the_smallest_works(entries, held):
    block = SearchBlock(TIC_TAC_TOE, SearchSettings(simulations=20, cache_positions=entries), slots=2)
    assert len(block._cache.keys) == held
    for slot in range(2):
        block.begin(slot, seed=0, versions=[1, 1])
    drive(block)
    assert (block.counters.cache_hits > 0) == (entries > 0)  # the games are twins


def test_two_versions_do_not_share_cached_evaluations():
    settings = SearchSettings(simulations=30, cache_positions=1 << 14, dirichlet_fraction=0.0)
    block = SearchBlock(TIC_TAC_TOE, settings, slots=2)
    for slot, version in enumerate((1, 2)):
        block.begin(slot, seed=0, versions=[version, version], hold=True)
    drive(block)
    alone = searched_block(TIC_TAC_TOE, settings, [()])
    assert compiled_tree(block, 0) == compiled_tree(alone, 0)
    assert compiled_tree(block, 1) != compiled_tree(alone, 0)


@pytest.mark.parametrize(("forgotten", "hits"), [(1, 0), (2, 1)])
def test_evaluations_of_a_forgotten_version_are_not_found_in_the_cache(forgotten, hits):
    block = SearchBlock(TIC_TAC_TOE, SearchSettings(simulations=1, cache_positions=64), slots=2)
    block.begin(0, seed=0, versions=[1, 1], hold=True)
    block.absorb(*answer_hashed(block.advance(), 2))
    block.abandon(0)
    block.forget([forgotten])
    block.begin(0, seed=0, versions=[1, 1], hold=True)
    block.advance()
    assert block.counters.cache_hits == hits


@pytest.mark.slow
@given(
    seeds=st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=6, unique=True),
    leaves=st.integers(1, 5),
    policy=st.sampled_from(["puct", "gumbel"]),
    entries=st.sampled_from([0, 2, 128]),
    slots=st.integers(1, 4),
)
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_the_game_of_a_slot_does_not_depend_on_the_others(seeds, leaves, policy, entries, slots):
    settings = SearchSettings(simulations=16, leaves_per_game=leaves, root_policy=policy, cache_positions=entries)
    together = played_games(settings, seeds, slots=slots)
    for seed in seeds[:2]:
        assert played_games(settings, [seed])[seed] == together[seed]


def test_batches_absorbed_in_other_blocks_have_no_effect():
    settings = SearchSettings(simulations=20, dirichlet_fraction=0.5)
    games = played_games(settings, range(4), game=CONNECT_FOUR)
    assert played_games(settings, range(4), game=CONNECT_FOUR, slots=1) == games
    assert np.unique(list(games.values())).size == 4
