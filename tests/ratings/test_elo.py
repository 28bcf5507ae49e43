import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings import Tally, rate
from zerofleet.strength.ratings.elo import ELO_PER_NAT

FIELD = [
    Tally("random", "alpha_beta:1", 3.5, 20),
    Tally("alpha_beta:1", "alpha_beta:2", 8.0, 20),
    Tally("alpha_beta:2", "model:1", 4.5, 20),
    Tally("random", "model:1", 0.0, 20),
    Tally("alpha_beta:1", "model:1", 2.0, 20),
]


def by_name(ratings):
    return {rating.name: rating for rating in ratings}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 10)), min_size=1, max_size=12))
def test_ratings_equal_those_of_choix(choix, games):
    # choix knows no draws: every game is entered twice, so that a draw is one win for each, under a prior twice as strong.
    tallies = [Tally(f"p{i}", f"p{(i + step) % 4}", half_points / 2, 5) for i, step, half_points in games]
    data = []
    for i, step, half_points in games:
        j = (i + step) % 4
        data += [(i, j)] * half_points + [(j, i)] * (10 - half_points)
    precision = (ELO_PER_NAT / 800.0) ** 2
    expected = choix.opt_pairwise(4, data, alpha=precision, tol=1e-12)  # its penalty is alpha * sum of squares
    ours = by_name(rate([*tallies, Tally("p0", "p1", 0, 0), Tally("p2", "p3", 0, 0)], anchor="p0", prior_sd_elo=800.0))
    for i in range(4):
        assert ours[f"p{i}"].elo == pytest.approx((expected[i] - expected[0]) * ELO_PER_NAT, abs=0.05)


@pytest.mark.slow
def test_rating_intervals_have_about_their_nominal_coverage():
    rng = np.random.default_rng(11)
    truth = np.array([0.0, 150.0, 320.0, 500.0])
    covered = 0
    for _ in range(300):
        tallies = []
        for i in range(4):
            for j in range(i):
                chance = 1.0 / (1.0 + 10.0 ** ((truth[j] - truth[i]) / 400.0))
                tallies.append(Tally(f"p{i}", f"p{j}", float(rng.binomial(60, chance)), 60))
        ratings = by_name(rate(tallies, anchor="p0"))
        covered += sum(ratings[f"p{i}"].low <= truth[i] <= ratings[f"p{i}"].high for i in (1, 2, 3))
    assert 0.92 <= covered / 900 <= 0.98


def test_the_anchor_is_exactly_zero_and_the_strongest_player_comes_first():
    ratings = rate(FIELD, anchor="random")
    anchor = by_name(ratings)["random"]
    assert (anchor.elo, anchor.low, anchor.high) == (0.0, 0.0, 0.0)
    assert [r.name for r in ratings] == ["model:1", "alpha_beta:2", "alpha_beta:1", "random"]
    assert by_name(ratings)["model:1"].games == 60


def test_a_player_who_won_everything_has_a_finite_rating_that_more_wins_raise():
    few, many = (rate([Tally("a", "random", n, n)], anchor="random")[0] for n in (10, 100))
    assert 0.0 < few.elo < many.elo < 3_000.0
    assert few.low < few.elo < few.high


def test_more_games_narrow_the_rating_interval():
    wide, tight = (rate([Tally("a", "random", n / 2, n)], anchor="random")[0] for n in (10, 1_000))
    assert tight.high - tight.low < 0.2 * (wide.high - wide.low)


def test_splitting_or_swapping_a_tally_does_not_change_the_ratings():
    whole = rate([Tally("a", "b", 7.0, 10)], anchor="b")
    parts = rate([Tally("a", "b", 4.0, 5), Tally("b", "a", 2.0, 5)], anchor="b")
    assert [(r.name, r.games) for r in whole] == [(r.name, r.games) for r in parts]
    assert whole[0].elo == pytest.approx(parts[0].elo)


def test_without_games_only_the_anchor_is_rated():
    assert [(r.name, r.elo, r.games) for r in rate([], anchor="random")] == [("random", 0.0, 0)]


def test_ratings_converge_for_extreme_results():
    ratings = rate([Tally("a", "b", 5_000, 5_000), Tally("b", "random", 5_000, 5_000)], anchor="random")
    assert all(np.isfinite([r.elo, r.low, r.high]).all() for r in ratings)


@pytest.mark.parametrize("tally", [Tally("a", "a", 1, 2), Tally("a", "b", 3, 2), Tally("a", "b", -1, 2)])
def test_impossible_tallies_are_rejected(tally):
    with pytest.raises(ConfigurationError):
        rate([tally], anchor="a")
