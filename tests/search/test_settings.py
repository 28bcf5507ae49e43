"""Settings: refused when they make no sense, and handed to compiled code as they are."""

import dataclasses

import pytest
from pydantic import ValidationError

import games
from zerofleet.search import SearchSettings
from zerofleet.search.compiled_settings import LOOK_AT_LEAVES, LOOK_AT_ROOT, PROVE_NOTHING, CompiledSettings, compile_settings

SPEC = games.make("tic_tac_toe").spec()


def test_compiled_code_gets_every_number_unrounded():
    settings = SearchSettings(
        full_search_share=0.25,
        fpu_reduction=0.3,
        dirichlet_alpha=0.6,
        dirichlet_fraction=0.4,
        temperature=0.9,
        temperature_end=0.2,
        forced_playouts=2.5,
        gumbel_visit_offset=9.5,
        gumbel_value_scale=0.1,
        virtual_loss=0.5,
        resign_threshold=-0.875,
        resign_control_share=0.15,
    )
    numbers = compile_settings(settings)._asdict()
    assert numbers.pop("gumbel") == 0
    assert numbers.pop("literal") == 0
    assert numbers.pop("repetition") == 0
    assert numbers.pop("soft_resignation") == 0
    assert numbers.pop("proofs") == LOOK_AT_ROOT
    assert numbers == {name: getattr(settings, name) for name in numbers}


def test_values_are_proven_with_open_information_alone_and_leaves_looked_at_where_that_is_cheap():
    assert compile_settings(SearchSettings(), sees_ends=True).proofs == LOOK_AT_LEAVES
    assert compile_settings(SearchSettings(prove_values=False), sees_ends=True).proofs == PROVE_NOTHING
    assert compile_settings(SearchSettings(information="determinise"), sees_ends=True).proofs == PROVE_NOTHING


def test_types_of_the_numbers_do_not_depend_on_their_values():
    whole = compile_settings(SearchSettings(virtual_loss=1, fpu_reduction=0, temperature=1))
    broken = compile_settings(SearchSettings(virtual_loss=1.5, fpu_reduction=0.25, temperature=0.5, root_policy="gumbel"))
    assert [type(value) for value in whole] == [type(value) for value in broken]
    assert broken.gumbel == 1
    assert {type(value) for value in whole} == {int, float}
    assert len(whole) == len(CompiledSettings._fields)


@pytest.mark.parametrize(
    "wrong",
    [
        {"simulations": -1},
        {"fast_simulations": -1},
        {"full_search_share": 0.0},
        {"puct_init": 0.0},
        {"fpu_reduction": -0.1},
        {"dirichlet_fraction": 1.5},
        {"temperature": -1.0},
        {"leaves_per_game": 65},
        {"resign_threshold": -1.5},
        {"resign_control_share": 2.0},
        {"cache_positions": -1},
        {"root_policy": "uct"},
        {"simulation": 100},
        {"puct_init": float("nan")},
        {"virtual_loss": float("inf")},
    ],
)
def test_settings_out_of_range_are_refused_by_name(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        SearchSettings(**wrong)


def test_fast_search_larger_than_the_full_one_is_refused():
    with pytest.raises(ValidationError, match="fast_simulations=50 exceeds simulations=40"):
        SearchSettings(simulations=40, fast_simulations=50, full_search_share=0.5)
    assert SearchSettings(simulations=10, fast_simulations=50).node_capacity >= 10


def test_settings_for_play_and_matches_are_deterministic():
    for settings in (SearchSettings.for_play(SPEC, 50), SearchSettings.for_match(SPEC, 50)):
        assert settings.simulations == 50
        assert settings.dirichlet_fraction == 0.0
        assert settings.temperature_end == 0.0
        assert settings.temperature_plies == 0
        assert not settings.gumbel_noise
        assert settings.resign_threshold == -1.0
        assert settings.full_search_share == 1.0
    assert not SearchSettings.for_match(SPEC).reuse_subtree


@pytest.mark.parametrize(
    ("changes", "simulations", "root"),
    [
        ({}, 50, "gumbel"),
        ({}, 0, "puct"),
        ({"num_players": 3}, 50, "puct"),
        ({"information": "hidden"}, 50, "puct"),
    ],
)
def test_two_players_with_perfect_information_have_a_gumbel_root_in_matches(changes, simulations, root):
    spec = dataclasses.replace(SPEC, **changes)
    assert SearchSettings.for_match(spec, simulations).root_policy == root
    assert SearchSettings.for_play(spec, simulations).root_policy == "puct"


def test_play_settings_of_a_game_with_repetitions_cut_the_path():
    assert SearchSettings.for_play(SPEC).repetition == "off"
    assert SearchSettings.for_match(dataclasses.replace(SPEC, repeats=True)).repetition == "path"


def test_cutting_on_the_path_keeps_no_subtree():
    assert compile_settings(SearchSettings(repetition="history")).reuse_subtree
    assert not compile_settings(SearchSettings(repetition="path")).reuse_subtree
