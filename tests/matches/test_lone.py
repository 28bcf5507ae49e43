"""One player alone against several, from results made by hand."""

import itertools

import numpy as np
import pytest

from zerofleet.strength.matches import GameResult, lone_tally, seatings

NAMES = ("a", "b")
SECOND = -1 / 3  # 1 of 3 points


def result(group, seating, scores):
    players = tuple(NAMES[player] for player in seating)
    return GameResult("m", group, seating, players, (), scores)


def test_the_share_of_points_holds_for_games_of_3_1_and_0_points():
    results = [
        result(0, (0, 1, 1), (1.0, SECOND, -1.0)),  # 3 of 4 points
        result(0, (1, 0, 1), (1.0, SECOND, -1.0)),  # 1 of 4
        result(0, (1, 1, 0), (1.0, SECOND, SECOND)),  # 1 of 5: two were second
        result(0, (0, 0, 1), (-1.0, -1.0, 1.0)),  # a is not alone here
    ]
    tally = lone_tally(results, NAMES, 0)
    assert (tally.player, tally.against, tally.opponents, tally.games) == ("a", "b", 2, 3)
    assert tally.share == pytest.approx(5 / 13)
    assert tally.share_low <= tally.share <= tally.share_high
    assert tally.mean_score == pytest.approx((1 + 2 * SECOND) / 3)
    assert [seat.placings for seat in tally.seats] == [(1, 0, 0), (0, 1, 0), (0, 1, 0)]
    other = lone_tally(results, NAMES, 1)
    assert (other.player, other.against, other.games, other.share) == ("b", "a", 1, 1.0)


def test_equal_players_have_equal_shares_whatever_the_seat_advantage():
    """Seat 1 always wins, and nobody plays better than anybody: a third each, as every seat is taken equally often."""
    results = [result(g, seating, (1.0, SECOND, -1.0)) for g in range(4) for seating in seatings(3)]
    for lone in (0, 1):
        tally = lone_tally(results, NAMES, lone)
        assert tally.share == pytest.approx(1 / 3)
        assert tally.net == pytest.approx(0.0)
        assert [seat.first for seat in tally.seats] == [1.0, 0.0, 0.0]


def test_the_interval_contains_one_third_in_about_19_of_20_matches_of_equal_players():
    rng = np.random.default_rng(1)
    orders = [tuple(np.array([1.0, SECOND, -1.0])[list(order)]) for order in itertools.permutations(range(3))]
    held = 0
    for _ in range(40):
        drawn = [result(g, s, orders[int(rng.integers(6))]) for g in range(30) for s in seatings(3)]
        tally = lone_tally(drawn, NAMES, 0)
        held += tally.share_low <= 1 / 3 <= tally.share_high
    assert held >= 34  # 38 on average; three deviations less


def test_the_net_score_counts_ties_for_best_and_worst():
    scores = [(1.0, 0.0, -1.0), (1.0, 1.0, -1.0), (0.0, 1.0, -1.0), (-1.0, -1.0, 1.0), (0.0, 0.0, 0.0)]
    tally = lone_tally([result(g, (0, 1, 1), values) for g, values in enumerate(scores)], NAMES, 0)
    assert tally.net == pytest.approx(100 * (2 - 1) / 5)
    assert tally.net_low < tally.net < tally.net_high
    assert tally.seats[0].placings == (3, 2, 0)  # equal scores share the better placing


def test_games_without_points_are_shared_equally():
    tally = lone_tally([result(0, (0, 1, 1), (-1.0, -1.0, -1.0))], NAMES, 0)
    assert (tally.share, tally.share_low, tally.share_high) == (pytest.approx(1 / 3), 0.0, 1.0)
