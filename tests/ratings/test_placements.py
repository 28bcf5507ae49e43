import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.errors import ConfigurationError
from zerofleet.strength.ratings import Placement, Tally, rate
from zerofleet.strength.ratings.elo import ELO_PER_NAT

PLAYERS = ("a", "b", "c", "d")


def elos(results, **changes):
    return {r.name: r.elo for r in rate(results, anchor="a", **changes)}


def orders(places):
    """Return every order of the players (first to last) that agrees with the places."""
    groups = [[i for i, own in enumerate(places) if own == place] for place in sorted(set(places))]
    parts = itertools.product(*(itertools.permutations(group) for group in groups))
    return [[player for part in order for player in part] for order in parts]


def draw(rng, strengths, games):
    """Return the places of games [games, P] in which the players are ranked by Plackett and Luce's model."""
    luck = rng.gumbel(size=(games, len(strengths)))
    return np.argsort(np.argsort(-(strengths + luck), axis=1), axis=1)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.permutations(range(4)).map(tuple), min_size=1, max_size=12))
def test_ratings_of_rankings_equal_those_of_choix(choix, rankings):
    expected = choix.opt_rankings(4, rankings, alpha=(ELO_PER_NAT / 800.0) ** 2 / 2.0, tol=1e-12)
    placements = [Placement(tuple(PLAYERS[i] for i in ranking), (0, 1, 2, 3)) for ranking in rankings]
    ours = elos(placements, prior_sd_elo=800.0)
    for i, name in enumerate(PLAYERS):
        assert ours[name] == pytest.approx((expected[i] - expected[0]) * ELO_PER_NAT, abs=0.05)


def test_without_a_prior_ratings_equal_the_maximum_likelihood_of_choix(choix):
    rng = np.random.default_rng(4)
    places = draw(rng, np.array([0.0, 0.4, 0.9, 1.3]), 200)
    rankings = [tuple(np.argsort(row)) for row in places]
    expected = choix.ilsr_rankings(4, rankings)
    ours = elos([Placement(PLAYERS, tuple(map(int, row))) for row in places], prior_sd_elo=1e6)
    assert [ours[name] for name in PLAYERS] == pytest.approx((expected - expected[0]) * ELO_PER_NAT, abs=0.05)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=6))
def test_ties_count_as_the_mean_of_all_orders_of_the_tied_players(choix, games):
    data = [order for places in games for order in orders(places) for _ in range(6 // len(orders(places)))]
    expected = choix.opt_rankings(3, data, alpha=6 * (ELO_PER_NAT / 800.0) ** 2 / 2.0, tol=1e-12)
    ours = elos([Placement(PLAYERS[:3], places) for places in games], prior_sd_elo=800.0)
    for i, name in enumerate(PLAYERS[:3]):
        assert ours[name] == pytest.approx((expected[i] - expected[0]) * ELO_PER_NAT, abs=0.05)


def test_two_players_are_rated_alike_by_tally_and_by_placements():
    tally = rate([Tally("a", "b", 6.5, 9)], anchor="a")
    placements = [Placement(("a", "b"), (0, 1), 6), Placement(("a", "b"), (0, 0), 1), Placement(("b", "a"), (0, 1), 2)]
    for one, other in zip(tally, rate(placements, anchor="a"), strict=True):
        assert (one.name, one.games) == (other.name, other.games)
        assert (one.elo, one.low, one.high) == pytest.approx((other.elo, other.low, other.high))


def test_tallies_and_placements_are_rated_together():
    together = elos([Tally("a", "b", 8, 10), Placement(("b", "c", "d"), (0, 1, 1), 10)])
    assert together["a"] > together["b"] > together["c"] == pytest.approx(together["d"])


def test_a_player_on_several_seats_is_not_rated_stronger_for_it():
    # All seats alike: alone against two equals one comes first in a third of the games.
    placements = [Placement.of(("a", "b", "b"), scores) for scores in itertools.permutations((1.0, 0.0, -1.0))]
    rated = {r.name: r for r in rate(placements, anchor="a")}
    assert rated["b"].elo == pytest.approx(0.0, abs=1e-6)
    assert rated["b"].games == 6


def test_ties_between_seats_of_one_player_do_not_affect_the_ratings():
    apart = elos([Placement.of(("a", "b", "b"), (1.0, 0.0, -1.0))] * 5)
    tied = elos([Placement.of(("a", "b", "b"), (1.0, -0.5, -0.5))] * 5)
    assert apart["b"] == pytest.approx(tied["b"])


def test_placements_follow_from_scores_in_any_order_of_seats():
    first = Placement.of(("x", "y", "z"), (-1.0 / 3.0, 1.0, -1.0 / 3.0 + 1e-9))
    assert first == Placement(("y", "x", "z"), (0, 1, 1))
    assert first == Placement.of(("z", "x", "y"), (-1.0 / 3.0, -1.0 / 3.0, 1.0))


@pytest.mark.parametrize(
    ("players", "places", "games"),
    [(("a",), (0,), 1), (("a", "a"), (0, 1), 1), (("a", "b"), (0,), 1), (("a", "b"), (0, 1), -1)],
)
def test_impossible_placements_are_rejected(players, places, games):
    with pytest.raises(ConfigurationError):
        Placement(players, places, games)


def test_many_tied_players_have_equal_ratings_and_are_rated_quickly():
    names = tuple(f"p{i}" for i in range(10))
    ratings = rate([Placement(names, (0,) * 10, 7)], anchor="p0")
    assert max(abs(r.elo) for r in ratings) < 1e-6


def coverage(seed, *, seats, runs, games):
    """Return the share of intervals that hold the true rating, of five players who are seated at random."""
    rng = np.random.default_rng(seed)
    truth = np.array([0.0, 120.0, 250.0, 420.0, 640.0])
    covered = 0
    for _ in range(runs):
        placements = []
        for _ in range(games):
            seated = rng.choice(5, size=seats, replace=False)
            places = draw(rng, truth[seated] / ELO_PER_NAT, 1)[0]
            placements.append(Placement(tuple(f"p{i}" for i in seated), tuple(int(place) for place in places)))
        rated = {r.name: r for r in rate(placements, anchor="p0")}
        covered += sum(rated[f"p{i}"].low <= truth[i] <= rated[f"p{i}"].high for i in range(1, 5))
    return covered / (4 * runs)


@pytest.mark.slow
@pytest.mark.parametrize("seats", [3, 5])
def test_intervals_of_placements_have_about_their_nominal_coverage(seats):
    runs = 100
    # Four ratings of a run hang together, as far as one observation at worst.
    slack = 3.0 * math.sqrt(0.05 * 0.95 / runs)
    assert 0.95 - slack <= coverage(21, seats=seats, runs=runs, games=60) <= 0.95 + slack
