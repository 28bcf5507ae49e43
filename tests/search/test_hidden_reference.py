"""Search with hidden information: the compiled trees and games equal those of the plain reference."""

import pytest
from hidden_bench import MODES, THREE, TWO, compiled_tree, reference, reference_tree, search, searched
from search_bench import difference

from zerofleet.search import SearchBlock, SearchSettings

KINDS = {
    "quiet": {"dirichlet_fraction": 0.0, "temperature": 0.0},
    "noise": {"dirichlet_alpha": 0.3},
    "forced playouts": {"forced_playouts": 2.0},
    "no first-play reduction": {"fpu_reduction": 0.0, "puct_init": 2.5},
    "literal exploration": {"exploration": "literal", "dirichlet_fraction": 0.0},
    "gumbel": {"root_policy": "gumbel"},
    "caps": {"fast_simulations": 7, "full_search_share": 0.5, "temperature_end": 1.0},
}
POSITIONS = [(THREE, ()), (THREE, (0,)), (TWO, ()), (TWO, (1, 2))]  # indices into the legal actions


def opening_of(game, indices, seed):
    settings = SearchSettings(simulations=1, information="determinise")
    made = reference(game, settings, seed=seed, versions=[1] * game.spec().num_players)
    for index in indices:
        made.play(made.root.edges[index % len(made.root.edges)])
    return made.moves


def positive(visits):
    return {action: count for action, count in visits.items() if count}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["quiet", "noise", "gumbel"])
@pytest.mark.slow
def test_compiled_tree_equals_the_reference_at_every_budget(mode, kind):
    for position, (game, indices) in enumerate(POSITIONS):
        opening = opening_of(game, indices, position)
        for budget in (1, 2, 3, 5, 8, 13, 40, 120):
            settings = SearchSettings(simulations=budget, information=mode, **KINDS[kind])
            block = searched(game, settings, [opening], seed=position)
            plain = reference(game, settings, seed=position, versions=[1] * game.spec().num_players, opening=opening)
            plain.search()
            found = difference(compiled_tree(block, 0), reference_tree(plain, plain.root))
            assert found is None, f"{game} after {opening}, {budget} simulations, compiled != reference: {found}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_compiled_games_equal_the_reference(mode, kind):
    settings = SearchSettings(**({"simulations": 30, "information": mode} | KINDS[kind]))
    for game, versions in ((THREE, [1, 1, 1]), (THREE, [3, 1, 2]), (TWO, [1, 2])):
        block = SearchBlock(game, settings, slots=2)
        for seed in range(len(block)):
            block.begin(seed, seed=seed, versions=versions)
        search(block)
        for seed in range(len(block)):
            played, plain = block.take(seed), reference(game, settings, seed=seed, versions=versions)
            plain.play_game()
            assert played.moves.tolist() == plain.moves
            assert played.scores == plain.scores
            found = [dict(zip(m.actions.tolist(), m.visits.tolist(), strict=True)) for m in played.searched]
            assert [positive(visits) for visits in found] == [positive(m.visits) for m in plain.searched]
            assert [m.root_value.tolist() for m in played.searched] == [m.value.tolist() for m in plain.searched]
