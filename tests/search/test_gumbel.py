"""Gumbel root: the published schedule of sequential halving, and the improved policy as target."""

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, compiled_tree, drive, searched_block

from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.gumbel import considered_visits

# (actions considered, simulations, schedule), worked out in the published code and by hand
SCHEDULES = {
    "just enough simulations": (8, 24, [0] * 8 + [1] * 4 + [2] * 4 + [3, 3, 4, 4, 5, 5, 6, 6]),
    "more than enough": (8, 47, [0] * 8 + [1] * 4 + [2] * 4 + [3] * 4 + [n // 2 for n in range(8, 35)]),
    "fewer than actions": (8, 2, [0, 0]),
    "too few for all rounds": (8, 13, [0] * 8 + [1] * 4 + [2]),
    "not a power of two": (7, 24, [0] * 7 + [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]),
    "sixteen in two hundred": (
        16,
        200,
        [n for n in range(3) for _ in range(16)]
        + [n for n in range(3, 9) for _ in range(8)]
        + [n for n in range(9, 21) for _ in range(4)]
        + [n for n in range(21, 49) for _ in range(2)],
    ),
    "one action": (1, 5, [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_visits_follow_the_published_schedule(case):
    considered, simulations, schedule = SCHEDULES[case]
    table = considered_visits(considered, simulations)
    assert table.shape == (considered + 1, simulations)
    assert table[considered].tolist() == schedule


def test_the_blocks_of_one_budget_share_their_schedule_which_cannot_be_changed():
    table = considered_visits(4, 50)
    assert considered_visits(4, 50) is table
    assert not table.flags.writeable


def test_phases_halve_the_actions_until_two_are_left():
    _, _, schedule = SCHEDULES["sixteen in two hundred"]
    block = searched_block(CONNECT_FOUR, SearchSettings(simulations=42, root_policy="gumbel", gumbel_considered=4), [()])
    visits = sorted((edge["visits"] for edge in compiled_tree(block, 0)["edges"]), reverse=True)
    assert len(schedule) == 200
    assert visits == [16, 16, 5, 5, 0, 0, 0]  # 42 = 4 * 5 + 2 * 11


def test_the_target_is_the_improved_policy():
    settings = SearchSettings(simulations=20, root_policy="gumbel", gumbel_considered=4, gumbel_value_scale=0.05)
    block = searched_block(CONNECT_FOUR, settings, [(3,)])
    tree = compiled_tree(block, 0)
    mover = tree["to_move"]
    priors = np.array([edge["prior"] for edge in tree["edges"]])
    visits = np.array([edge["visits"] for edge in tree["edges"]])
    sums = np.array([edge["total"][mover] for edge in tree["edges"]])
    seen = visits > 0
    q = np.where(seen, sums / np.maximum(visits, 1), 0.0)
    mean_seen = (priors[seen] * q[seen]).sum() / priors[seen].sum()
    v_mix = (tree["value"][mover] + visits.sum() * mean_seen) / (1 + visits.sum())  # equation 33
    completed = np.where(seen, q, v_mix)
    logits = np.log(priors + 1e-8) + (50 + visits.max()) * 0.05 * (completed + 1) / 2
    improved = np.exp(logits - logits.max())
    improved /= improved.sum()

    best = int(np.argmax(improved))
    block.play(0, tree["edges"][best]["action"])
    drive(block)
    while not block.finished():
        block.play(0, int(block.analysis(0).actions[0]))
        drive(block)
    move = block.take(0).searched[0]
    assert seen.sum() == 4
    assert move.actions.tolist() == list(range(7))  # unvisited actions have a share of the target as well
    np.testing.assert_array_equal(move.visits, visits)
    np.testing.assert_allclose(move.target / 65535, improved, atol=2e-5)


def test_the_winner_is_among_the_most_visited():
    block = SearchBlock(CONNECT_FOUR, SearchSettings(simulations=30, root_policy="gumbel", prove_values=False), slots=8)
    for slot in range(8):
        block.begin(slot, seed=slot, versions=[1, 1])
    drive(block)
    for slot in range(8):
        played = block.take(slot)
        for move in played.searched:
            chosen = int(np.flatnonzero(move.actions == played.moves[move.ply])[0])
            assert move.visits[chosen] == move.visits.max()
            assert move.visits.sum() == 30


def test_without_variates_the_search_does_not_depend_on_the_seed():
    settings = SearchSettings(simulations=25, root_policy="gumbel", gumbel_noise=False, gumbel_considered=3)
    block = searched_block(CONNECT_FOUR, settings, [(2, 2)] * 3)
    assert compiled_tree(block, 0) == compiled_tree(block, 1) == compiled_tree(block, 2)


def test_fast_searches_sample_variates():
    settings = SearchSettings(
        simulations=20, fast_simulations=3, full_search_share=0.01, root_policy="gumbel", gumbel_considered=3
    )
    block = searched_block(CONNECT_FOUR, settings, [()] * 30)
    trees = [compiled_tree(block, slot) for slot in range(30)]
    fast = [tuple(edge["visits"] for edge in tree["edges"]) for tree in trees if tree["visits"] == 4]
    assert len(fast) > 25
    assert len(set(fast)) > 5


def test_variates_vary_the_actions_considered():
    settings = SearchSettings(simulations=3, root_policy="gumbel", gumbel_considered=3)
    block = searched_block(CONNECT_FOUR, settings, [()] * 30)
    considered = {tuple(edge["visits"] for edge in compiled_tree(block, slot)["edges"]) for slot in range(30)}
    assert len(considered) > 5
