"""One search: the compiled tree equals the reference's, field by field, at every budget to 16 and some up to 64."""

import pytest
from reference_search import ReferenceGame
from search_bench import POSITIONS, compiled_tree, difference, hashed_network, reference_tree, searched_block

from zerofleet.search import SearchSettings

PUCT = {"dirichlet_fraction": 0.0, "temperature": 0.0}
KINDS = {
    "plain": PUCT,
    "no first-play reduction": PUCT | {"fpu_reduction": 0.0},
    "base that grows fast": PUCT | {"puct_base": 20.0, "puct_init": 2.5},
    "literal exploration": PUCT | {"exploration": "literal"},
    "noise": {"dirichlet_alpha": 0.3},
    "noise scaled by legal moves": {"dirichlet_fraction": 0.5},
    "forced playouts": {"forced_playouts": 2.0},
    "four leaves": PUCT | {"leaves_per_game": 4},
    "seven leaves, mild loss, forced": {"leaves_per_game": 7, "virtual_loss": 0.25, "forced_playouts": 2.0},
    "gumbel": {"root_policy": "gumbel"},
    "gumbel among four, greedy": {"root_policy": "gumbel", "gumbel_considered": 4, "gumbel_noise": False},
    "gumbel, three leaves": {"root_policy": "gumbel", "leaves_per_game": 3, "gumbel_visit_offset": 10.0},
    "cache": PUCT | {"cache_positions": 64},
    "cache, four leaves": PUCT | {"cache_positions": 1024, "leaves_per_game": 4},
}
BUDGETS = (*range(1, 9), 11, 16, 23, 64)


def assert_same_trees(settings, game, openings):
    block = searched_block(game, settings, openings)
    for slot, opening in enumerate(openings):
        reference = ReferenceGame(game, settings, hashed_network(game), seed=slot, versions=[1, 1], opening=opening, hold=True)
        reference.search()
        found = difference(compiled_tree(block, slot), reference_tree(reference.root))
        assert found is None, f"{settings.simulations} simulations after {list(opening)}, compiled != reference: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_tree_equals_the_reference_at_small_and_large_budgets(kind):
    for game in dict.fromkeys(game for game, _ in POSITIONS):
        openings = [opening for g, opening in POSITIONS if g is game]
        for budget in BUDGETS:
            assert_same_trees(SearchSettings(simulations=budget, **KINDS[kind]), game, openings)
