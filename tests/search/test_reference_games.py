"""Whole games: every move, visit, target, value and flag equals what the reference search plays."""

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_search import ReferenceGame
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, drive, hashed_network

from zerofleet.contracts.played import FULL_SEARCH, REDUCED, TARGET_UNIT, WOULD_RESIGN
from zerofleet.search import SearchBlock, SearchSettings

GAMES = 3
KINDS = {
    "self-play": {},
    "no reuse": {"reuse_subtree": False},
    "forced playouts, pruned": {"forced_playouts": 2.0},
    "forced playouts, not pruned": {"forced_playouts": 2.0, "prune_targets": False},
    "playout caps": {"full_search_share": 0.4, "fast_simulations": 9, "forced_playouts": 2.0},
    "resignation": {"resign_threshold": -0.3, "resign_control_share": 0.5},
    "soft resignation": {
        "resign_threshold": -0.3,
        "resign_control_share": 0.2,
        "resignation": "soft",
        "full_search_share": 0.6,
        "forced_playouts": 2.0,
    },
    "gumbel, soft resignation": {"root_policy": "gumbel", "resign_threshold": -0.3, "resignation": "soft"},
    "temperature that stays": {"temperature": 0.7, "temperature_plies": 0, "temperature_end": 0.7},
    "five leaves": {"leaves_per_game": 5, "forced_playouts": 2.0},
    "replies": {"prove_replies": True},
    "replies, five leaves": {"prove_replies": True, "leaves_per_game": 5, "forced_playouts": 2.0},
    "gumbel, replies": {"prove_replies": True, "root_policy": "gumbel", "gumbel_considered": 5},
    "gumbel": {"root_policy": "gumbel", "gumbel_considered": 5},
    "gumbel, caps, leaves": {
        "root_policy": "gumbel",
        "full_search_share": 0.5,
        "fast_simulations": 6,
        "leaves_per_game": 4,
    },
}


def played_by_block(game, settings, versions):
    block = SearchBlock(game, settings, slots=GAMES)
    for slot in range(GAMES):
        block.begin(slot, seed=1000 + slot, versions=versions, opening=[slot])
    drive(block)
    assert block.finished() == list(range(GAMES))
    return [block.take(slot) for slot in range(GAMES)]


def played_by_reference(game, settings, versions):
    network = hashed_network(game)
    for slot in range(GAMES):
        played = ReferenceGame(game, settings, network, seed=1000 + slot, versions=versions, opening=[slot])
        played.play_game()
        yield played


def assert_same_game(played, wanted):
    assert played.moves.tolist() == wanted.moves
    assert played.scores == wanted.scores
    assert played.resigned_seat == wanted.resigned
    assert played.resignation_control == wanted.control
    assert len(played.searched) == len(wanted.searched)
    for move, searched in zip(played.searched, wanted.searched, strict=True):
        assert_same_search(move, searched)


def assert_same_search(move, wanted):
    assert move.ply == wanted.ply
    assert move.model_version == wanted.version
    assert move.flags == wanted.target * FULL_SEARCH + wanted.would_resign * WOULD_RESIGN + wanted.reduced * REDUCED
    assert dict(zip(move.actions.tolist(), move.visits.tolist(), strict=True)) == {
        action: visits
        for action, visits in wanted.visits.items()
        if visits or wanted.weights[action] / sum(wanted.weights.values()) >= 0.5 / TARGET_UNIT
    }
    np.testing.assert_array_equal(move.root_value, wanted.value)
    weights = np.array([wanted.weights[action] for action in move.actions])
    if len(move.target):
        np.testing.assert_allclose(move.target, weights / weights.sum() * TARGET_UNIT, atol=1.01)
    else:
        np.testing.assert_array_equal(move.visits, weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR], ids=lambda game: game.spec().name)
def test_whole_games_equal_the_reference(game, kind):
    settings = SearchSettings(simulations=24 if "gumbel" in kind else 40, **({"fast_simulations": 12} | KINDS[kind]))
    pairs = zip(played_by_block(game, settings, [3, 3]), played_by_reference(game, settings, [3, 3]), strict=True)
    for played, wanted in pairs:
        assert_same_game(played, wanted)


def test_games_of_two_model_versions_equal_the_reference():
    settings = SearchSettings(simulations=30)
    pairs = zip(
        played_by_block(CONNECT_FOUR, settings, [7, 9]), played_by_reference(CONNECT_FOUR, settings, [7, 9]), strict=True
    )
    for played, wanted in pairs:
        assert {move.model_version for move in played.searched} == {7, 9}
        assert_same_game(played, wanted)


chances = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])
search_settings = st.builds(
    SearchSettings,
    simulations=st.integers(20, 48),
    fast_simulations=st.integers(1, 20),
    full_search_share=st.sampled_from([0.2, 0.5, 1.0]),
    root_policy=st.sampled_from(["puct", "puct", "puct", "gumbel"]),
    exploration=st.sampled_from(["puct", "puct", "literal"]),
    prove_replies=st.booleans(),
    puct_init=st.sampled_from([0.4, 1.25, 3.0]),
    puct_base=st.sampled_from([30.0, 19652.0]),
    fpu_reduction=chances,
    dirichlet_alpha=chances,
    dirichlet_fraction=chances,
    temperature=chances,
    temperature_end=chances,
    temperature_plies=st.integers(0, 12),
    forced_playouts=st.sampled_from([0.0, 0.5, 2.0, 8.0]),
    prune_targets=st.booleans(),
    gumbel_considered=st.integers(1, 20),
    gumbel_noise=st.booleans(),
    leaves_per_game=st.integers(1, 9),
    virtual_loss=chances,
    reuse_subtree=st.booleans(),
    resign_threshold=st.sampled_from([-1.0, -0.5, 0.1]),
    resign_control_share=chances,
    resignation=st.sampled_from(["end", "soft"]),
)


@pytest.mark.slow
@given(settings=search_settings, seed=st.integers(0, 2**32), versions=st.sampled_from([[1, 1], [1, 2]]))
@hypothesis.settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_games_with_any_settings_equal_the_reference(settings, seed, versions):
    block = SearchBlock(TIC_TAC_TOE, settings, slots=1)
    block.begin(0, seed=seed, versions=versions)
    drive(block)
    wanted = ReferenceGame(TIC_TAC_TOE, settings, hashed_network(TIC_TAC_TOE), seed=seed, versions=versions)
    wanted.play_game()
    assert_same_game(block.take(0), wanted)
