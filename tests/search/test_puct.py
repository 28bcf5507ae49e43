"""Selection and its extras against the formulas of the papers, read off finished trees."""

import math

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_uniform, compiled_tree, drive, searched_block

from zerofleet.search import SearchBlock, SearchSettings, puct
from zerofleet.search.puct import exploration_table

QUIET = SearchSettings(simulations=1, dirichlet_fraction=0.0)


def visits_of(settings, answer, *, game=TIC_TAC_TOE, opening=()):
    tree = compiled_tree(searched_block(game, settings, [opening], answer), 0)
    return [edge["visits"] for edge in tree["edges"]]


@pytest.mark.parametrize("visits", [1, 2, 10, 400, 20_000])
def test_exploration_follows_the_alphazero_formula(visits):
    assert exploration_table(SearchSettings(), visits)[visits] == pytest.approx(
        (math.log((visits + 19652 + 1) / 19652) + 1.25) * math.sqrt(visits)
    )


@pytest.mark.parametrize("visits", [1, 400])
def test_literal_exploration_does_not_grow_with_the_visits_of_the_parent(visits):
    assert exploration_table(SearchSettings(exploration="literal", puct_init=3.0), visits)[visits] == 1.0


def test_factors_are_computed_once_for_all_blocks_that_explore_alike(monkeypatch):
    settings = SearchSettings(simulations=5000, puct_init=1.2345)
    first = SearchBlock(TIC_TAC_TOE, settings, slots=1)._arena.exploration
    monkeypatch.setattr(puct, "math", None)  # a new table would need its functions
    second = SearchBlock(TIC_TAC_TOE, settings.model_copy(update={"fpu_reduction": 0.5}), slots=2)._arena.exploration
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("budget", range(1, 10))
def test_ties_go_to_the_lower_action(budget):
    settings = QUIET.model_copy(update={"simulations": budget, "fpu_reduction": 0.0})
    assert visits_of(settings, answer_uniform) == [1] * budget + [0] * (9 - budget)


def answer_after_moves(value_after):
    """Return an answer by the number of stones on the board, for the player to move."""

    def answer(leaves, players):
        policy, value = answer_uniform(leaves, players)
        stones = np.unpackbits(leaves.batch.states, axis=1).sum(axis=1)
        value[:, 0] = [value_after.get(int(n), 0.0) for n in stones]
        value[:, 1] = -value[:, 0]
        return policy, value

    return answer


@pytest.mark.parametrize("opening", [(), (4,)])
def test_first_play_urgency_counts_the_reduction_against_the_player_to_move(opening):
    """The first reply is as good as the position was thought to be. Without reduction the others are tried next; with a
    large one the search stays with it. Read for the wrong player, the good news would drive the search away."""
    answer = answer_after_moves({len(opening): 0.4, len(opening) + 1: -0.4})
    small = QUIET.model_copy(update={"simulations": 4, "fpu_reduction": 0.0, "puct_init": 0.01})
    large = small.model_copy(update={"fpu_reduction": 1.0})
    assert visits_of(small, answer, opening=opening)[:4] == [1, 1, 1, 1]
    assert visits_of(large, answer, opening=opening)[:2] == [4, 0]


@pytest.mark.parametrize(("value", "visits"), [(0.2, [4, 0]), (0.06, [2, 2]), (0.05, [1, 1])])
def test_literal_exploration_gives_an_untried_child_its_prior_alone(value, visits):
    """Nine priors of 1/9: after one visit a child of value 0.06 has 0.06 + 1/18 and is preferred to an untried one, which has
    0 + 1/9; one of 0.05 is not."""
    answer = answer_after_moves({stones: -value if stones % 2 else value for stones in range(1, 6)})
    assert visits_of(QUIET.model_copy(update={"simulations": 4, "exploration": "literal"}), answer)[:2] == visits


def test_first_play_urgency_follows_the_mean_of_the_parent():
    """A position first thought good turns out bad: untried moves are then worth little more than the tried one."""
    answer = answer_after_moves({0: 1.0, 1: 1.0, 2: -1.0})
    visits = visits_of(QUIET.model_copy(update={"simulations": 9, "puct_init": 0.01, "fpu_reduction": 0.0}), answer)
    assert visits == [1] * 9


NOISY = SearchSettings(simulations=150, forced_playouts=2.0, reuse_subtree=False, dirichlet_alpha=0.4)


def forced_roots():
    """Yield a block, a slot of it, and the slot's tree, searched with noise and forced playouts."""
    block = searched_block(CONNECT_FOUR, NOISY, [(3,), (3, 3), (0, 1), (2, 4, 4)] * 5)
    for slot in range(20):
        yield block, slot, compiled_tree(block, slot)


def test_every_visited_child_gets_its_forced_playouts():
    for _, _, tree in forced_roots():
        children = sum(edge["visits"] for edge in tree["edges"])
        for edge in tree["edges"]:
            if edge["visits"]:
                assert edge["visits"] >= math.sqrt(2.0 * edge["prior"] * (children - 1)) - 1


def test_without_noise_no_playouts_are_forced():
    forced = NOISY.model_copy(update={"dirichlet_fraction": 0.0})
    plain = forced.model_copy(update={"forced_playouts": 0.0})
    assert visits_of(forced, answer_hashed) == visits_of(plain, answer_hashed)


def test_pruning_takes_as_many_forced_playouts_as_puct_allows():
    """Wu 2019, 3.2: up to n_forced, but PUCT of the child must not pass that of the best; single playouts go."""
    pruned = 0
    for block, slot, tree in forced_roots():
        weights = pruned_weights(block, slot)
        edges, mover = tree["edges"], tree["to_move"]
        factor = exploration_table(NOISY, tree["visits"])[-1]

        def score(edge, visits, mover=mover, factor=factor):
            return edge["total"][mover] / edge["visits"] + factor * edge["prior"] / (1 + visits)

        best = max(edges, key=lambda edge: edge["visits"])
        limit = score(best, best["visits"])
        for edge, weight in zip(edges, weights, strict=True):
            if edge is best or not edge["visits"]:
                assert weight == edge["visits"]
                continue
            forced = math.floor(math.sqrt(2.0 * edge["prior"] * 150))
            taken = 0
            while taken < forced and score(edge, edge["visits"] - taken - 1) <= limit:
                taken += 1
            kept = edge["visits"] - taken
            assert weight == (kept if kept > 1 else 0)
            pruned += taken
    assert pruned > 50


def pruned_weights(block, slot):
    """Play a move in a searched slot, and return the target its history has, in visits by edge."""
    ply = len(block.moves(slot))
    block.play(slot, 6)
    history = block._history
    count = history.counts[slot, ply]
    weights = np.zeros(7)
    targets, visits = history.targets[slot, ply, :count], history.visits[slot, ply, :count]
    kept = targets if targets.any() else visits / visits.sum()
    scale = visits.max() / kept[visits.argmax()]  # the best keeps all its visits
    weights[history.actions[slot, ply, :count]] = np.round(kept * scale)
    return weights


class TestVirtualLoss:
    def test_virtual_loss_makes_the_leaves_of_a_batch_differ(self):
        settings = SearchSettings(simulations=60, leaves_per_game=8, dirichlet_fraction=0.0, prove_values=False)
        block = SearchBlock(CONNECT_FOUR, settings, slots=1)
        block.begin(0, seed=0, versions=[1, 1], hold=True)
        sizes = []
        while len((leaves := block.advance()).batch):
            sizes.append(len(leaves.batch))
            block.absorb(*answer_hashed(leaves, 2))
        assert sizes[0] == 1  # the root alone
        assert max(sizes) == 8
        assert sum(sizes) == 61
        assert len(sizes) < 20

    def test_virtual_loss_is_removed_after_the_evaluations(self):
        tree = compiled_tree(
            searched_block(CONNECT_FOUR, QUIET.model_copy(update={"simulations": 50, "leaves_per_game": 7}), [()]), 0
        )
        todo = [tree]
        while todo:
            node = todo.pop()
            assert node["flight"] == 0
            assert all(edge["flight"] == 0 for edge in node["edges"])
            todo += [edge["child"] for edge in node["edges"] if edge["child"]]


def test_root_noise_changes_priors_by_its_fraction_only():
    plain = compiled_tree(searched_block(CONNECT_FOUR, QUIET, [()]), 0)
    settings = SearchSettings(simulations=1, dirichlet_fraction=0.25, dirichlet_alpha=0.3)
    block = SearchBlock(CONNECT_FOUR, settings, slots=200)
    for slot in range(200):
        block.begin(slot, seed=slot, versions=[1, 1], hold=True)
    drive(block)
    priors = np.array([[edge["prior"] for edge in compiled_tree(block, slot)["edges"]] for slot in range(200)])
    clean = np.array([edge["prior"] for edge in plain["edges"]])
    np.testing.assert_allclose(priors.sum(axis=1), 1.0, atol=1e-5)
    assert np.all(priors >= 0.75 * clean - 1e-6)
    assert np.all(priors <= 0.75 * clean + 0.25 + 1e-6)
    noise = (priors - 0.75 * clean) / 0.25
    np.testing.assert_allclose(noise.mean(axis=0), 1 / 7, atol=0.06)
    expected_variance = (1 / 7) * (6 / 7) / (7 * 0.3 + 1)  # of Dirichlet(0.3, ..., 0.3)
    assert noise.var(axis=0).mean() == pytest.approx(expected_variance, rel=0.2)
