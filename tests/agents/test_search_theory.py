"""What theory says of depth-first searches, on trees made for it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from uniform_tree import COST, UniformTree, tree_of

import games
from benchmarks.search_theory import fewest_leaves, minimal_tree, most_leaves
from zerofleet.agents.budget import Budget
from zerofleet.agents.depth_first.deepening import deepen, finish
from zerofleet.agents.depth_first.max_n import MaxNSearch
from zerofleet.agents.depth_first.minimax import Algorithm, MinimaxSearch

ALGORITHMS: tuple[Algorithm, ...] = ("minimax", "alpha_beta", "negascout")


def root_value(game: games.Game, state: games.State, algorithm: Algorithm) -> tuple[float, int]:
    """The value of a position to the end of the game, in the order of the moves, and the leaves that took."""
    plies = game.spec().max_plies
    search = MinimaxSearch(game, state, deepest=plies, algorithm=algorithm, root="value", ordered=False)
    return float(finish(search, plies).values.max()), search.leaves


@pytest.mark.parametrize(
    ("depth", "worst", "best", "types"),
    [
        (0, 1, 1, (1, 0, 0)),
        (1, 40, 40, (1, 39, 0)),
        (2, 1_600, 79, (1, 39, 39)),
        (3, 64_000, 1_639, (1, 1_599, 39)),
        (4, 2_560_000, 3_199, (1, 1_599, 1_599)),
        (5, 102_400_000, 65_599, (1, 63_999, 1_599)),
        (6, 4_096_000_000, 127_999, (1, 63_999, 63_999)),
        (7, 163_840_000_000, 2_623_999, (1, 2_559_999, 63_999)),
        (8, 6_553_600_000_000, 5_119_999, (1, 2_559_999, 2_559_999)),
    ],
)
def test_leaf_counts_with_forty_moves_are_known(depth: int, worst: int, best: int, types: tuple[int, int, int]) -> None:
    assert most_leaves(40, depth) == worst
    assert fewest_leaves(40, depth) == best
    assert minimal_tree(40, depth) == types
    assert minimal_tree(40, depth).leaves == best


def test_the_node_table_of_the_results_has_the_counts_of_the_theory_and_those_of_the_ablation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results" / "rhombus_search.md").read_text("utf-8")
    table, ablation = (rows_below(page, heading) for heading in ("## Node table", "## Ablation"))
    steps = {row[0]: row[1::2] for row in ablation}
    assert len(table) == 9
    for depth, row in enumerate(table):
        counts = (depth, most_leaves(40, depth), fewest_leaves(40, depth), *minimal_tree(40, depth))
        assert row[:6] == [f"{count:,}" for count in counts]
        measured = [steps[name][depth - 2] if 2 <= depth <= 6 else "" for name in ("minimax", "+ alpha-beta", "floods instead")]
        assert row[6:] == measured


def rows_below(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), page.partition(f"{heading}\n")[2].splitlines())
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["alpha_beta", "negascout"])
def test_with_perfect_ordering_exactly_the_minimal_tree_is_visited(algorithm: Algorithm) -> None:
    for branching, depth in [*itertools.product([2, 3, 7], [1, 2, 3, 4, 5, 6, 7]), *((40, depth) for depth in range(1, 7))]:
        game = UniformTree(branching, depth)
        value, leaves = root_value(game, games.new_state(game), algorithm)
        assert value == 0.0
        assert leaves == fewest_leaves(branching, depth), (branching, depth)


@pytest.mark.slow
def test_with_the_worst_ordering_every_leaf_is_visited() -> None:
    for branching, depth in itertools.product([2, 3, 7], [1, 2, 3, 4, 5]):
        game = UniformTree(branching, depth, worst_first=True)
        for algorithm in ("minimax", "alpha_beta"):
            value, leaves = root_value(game, games.new_state(game), algorithm)
            assert value == 0.0
            assert leaves == most_leaves(branching, depth), (algorithm, branching, depth)


@pytest.mark.slow
def test_deepening_corrects_the_worst_ordering() -> None:
    game = UniformTree(7, 6, worst_first=True)
    search = MinimaxSearch(game, games.new_state(game), deepest=6, root="value")
    found = deepen(search, Budget(10**9, "nodes"), deepest=6)
    assert found.moves.values.max() == 0.0
    assert found.depth == 6
    assert found.moves.nodes < most_leaves(7, 6) / 10  # all six depths together


@pytest.mark.slow
def test_all_algorithms_find_the_same_value_of_any_tree() -> None:
    rng = np.random.default_rng(1)
    for number in range(300):
        branching, plies = 2 + number % 3, 1 + number % 5
        some_values = rng.integers(-5, 6, branching**plies) / 8  # many are equal
        game, state = tree_of(branching, *some_values)
        visited = {}
        values = set()
        for algorithm in ALGORITHMS:
            value, visited[algorithm] = root_value(game, state, algorithm)
            values.add(value)
        values.add(float(finish(MaxNSearch(game, state, deepest=plies), plies).values.max()))
        assert len(values) == 1
        assert visited["alpha_beta"] <= visited["minimax"] == branching**plies


def test_negascout_skips_a_leaf_that_alpha_beta_visits() -> None:
    """A MAX root over two MIN nodes over MAX nodes. The first branch is worth 3/8; the second has 4 and 1, then 2 and -.

        root ── A ── (3, 1) (5, -)          A is worth 3: the second pair is cut at 5
             └─ B ── (4, ?) (2, 1)          is B better than 3? 4 says that its first move is no refutation, whatever ? is

    Alpha-beta looks at ?, for B might be worth more than 4; the null window of NegaScout has seen enough.
    """
    leaves = np.array([3, 1, 5, 0, 4, 6, 2, 1]) / 8
    game, state = tree_of(2, *leaves)
    value, visited = root_value(game, state, "alpha_beta")
    assert (value, visited) == (3 / 8, 7)
    assert root_value(game, state, "negascout") == (3 / 8, 6)


def test_the_worked_example_of_a_win_that_cuts_depends_on_the_order() -> None:
    """Two moves each, three plies, won or lost. After the first move the opponent wins with the left answer, after the second
    with the right one; so from left to right only the first branch is cut.
    """
    won, lost = (1.0, 1.0), (-1.0, -1.0)
    cut_after_the_first = tree_of(2, *lost, *won, *won, *won)
    left_to_right = tree_of(2, *lost, *won, *won, *lost)
    other_way_round = tree_of(2, *lost, *won, *lost, *won)
    assert root_value(*cut_after_the_first, "alpha_beta") == (1.0, 2 + 2)  # s1 is cut; a win cuts each pair after it
    assert root_value(*left_to_right, "alpha_beta")[1] > root_value(*other_way_round, "alpha_beta")[1]
    assert root_value(*left_to_right, "alpha_beta")[0] == root_value(*other_way_round, "alpha_beta")[0] == -1.0


def test_the_principal_variation_is_found() -> None:
    game = UniformTree(3, 5)
    search = MinimaxSearch(game, games.new_state(game), deepest=5)
    finish(search, 5)
    assert search.line == [0, 0, 0, 0, 0]


def test_ties_are_distinguished_from_near_ties() -> None:
    """The second move is worse than the first by a hair, the third exactly as good."""
    game, state = tree_of(3, 0.5, 0.75, 0.75, 0.5 - COST, 1.0, 1.0, 1.0, 0.5, 1.0)
    for algorithm in ALGORITHMS:
        search = MinimaxSearch(game, state, deepest=2, algorithm=algorithm)
        assert finish(search, 2).best().tolist() == [0, 2]
