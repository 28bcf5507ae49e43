import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.strength.ratings import elo_from_share, share_from_elo, share_interval, wilson


def test_the_wilson_interval_equals_the_published_example():
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)


def test_the_interval_without_games_is_the_whole_range():
    assert wilson(0, 0) == (0.0, 1.0)
    assert share_interval(np.array([])) == (0.0, 1.0)


def test_the_interval_of_groups_all_won_has_positive_width():
    low, high = share_interval(np.ones(100))
    assert low == pytest.approx(math.exp(math.log(0.025) / 100))  # 100 groups are all won with a probability of 2.5 %
    assert high == 1.0


@pytest.mark.parametrize(("games", "share"), [(10, 0.8), (10, 0.9), (50, 0.97), (100, 0.98), (100, 0.995)])
def test_the_share_interval_of_won_and_lost_groups_keeps_its_coverage_near_the_end(games, share):
    covered = 0.0
    for won in range(games + 1):  # exact: every outcome by its probability
        low, high = share_interval(np.repeat([1.0, 0.0], [won, games - won]))
        covered += math.comb(games, won) * share**won * (1.0 - share) ** (games - won) * (low <= share <= high)
    assert covered >= 0.93


@pytest.mark.parametrize("groups", [5, 20, 100])
@pytest.mark.parametrize("worse", [0.75, 0.5, 0.0])
def test_a_better_result_has_no_lower_bounds(groups, worse):
    found = [share_interval(np.array([1.0] * (groups - given) + [worse] * given)) for given in range(groups + 1)]
    for better, other in itertools.pairwise(found):
        assert better[0] >= other[0] - 1e-9
        assert better[1] >= other[1] - 1e-9


def test_the_interval_of_groups_all_drawn_reaches_as_far_to_both_sides():
    low, high = share_interval(np.full(40, 0.5))
    assert (low, high) == pytest.approx((0.5 * 0.025 ** (1 / 40), 1.0 - 0.5 * 0.025 ** (1 / 40)))


@settings(max_examples=30)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=80))
def test_the_interval_contains_the_observed_share_and_stays_in_range(scores):
    low, high = share_interval(np.array(scores))
    assert 0.0 <= low <= np.mean(scores) <= high <= 1.0


def test_balanced_pairs_give_a_narrower_interval_than_wilson():
    # Every opening is won by whoever has the better side: 100 pairs of a win and a loss, and a few exceptions.
    low, high = share_interval(np.array([0.5] * 95 + [1.0] * 3 + [0.0] * 2))
    wide_low, wide_high = wilson(101, 200)
    assert high - low < 0.5 * (wide_high - wide_low)


@pytest.mark.slow
def test_the_share_interval_has_about_its_nominal_coverage():
    rng = np.random.default_rng(7)
    probabilities = np.array([0.05, 0.1, 0.4, 0.25, 0.2])
    truth = probabilities @ np.linspace(0.0, 1.0, 5)
    covered = 0
    for _ in range(250):
        low, high = share_interval(rng.choice(np.linspace(0.0, 1.0, 5), size=60, p=probabilities))
        covered += low <= truth <= high
    assert 0.92 <= covered / 250 <= 0.98


@given(st.floats(-1_000, 1_000))
def test_elo_and_share_are_inverse(elo):
    assert elo_from_share(share_from_elo(elo)) == pytest.approx(elo, abs=1e-6)


def test_the_elo_of_a_perfect_share_is_infinite():
    assert elo_from_share(1.0) == math.inf
    assert elo_from_share(0.0) == -math.inf
    assert share_from_elo(400.0) == pytest.approx(10.0 / 11.0)
