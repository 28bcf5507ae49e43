"""Estimates and verdicts, with intervals computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from zerofleet.strength.claims.tallies import Estimate, Tally, difference, estimate
from zerofleet.strength.claims.verdicts import Bar, verdict


def tally(scores: dict[str, int], *, seed: int = 0, trained: bool = True, at: int = 100) -> Tally:
    return Tally(meeting="m", subject="a", opponent="b", seat=1, seed=seed, trained=trained, at=at, scores=scores)


def found(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 100, 1, "games")


def test_a_share_of_won_games_has_wilsons_interval():
    # 8 of 10: centre (.8 + 3.8415/20) / 1.38415 = .71674, half 1.96 sqrt(.016 + .0096037) / 1.38415 = .22657
    got = estimate([tally({"1": 8, "0": 1, "-1": 1})], "won")
    assert got is not None
    assert got.value == pytest.approx(80.0)
    assert (got.low, got.high) == pytest.approx((49.016, 94.331), abs=2e-3)
    assert (got.games, got.seeds, got.interval) == (10, 1, "games")


def test_net_counts_wins_less_losses_and_points_count_draws_as_half():
    games = [tally({"1": 6, "0": 2, "-1": 2})]
    net, points = estimate(games, "net"), estimate(games, "points")
    assert net is not None
    assert points is not None
    assert (net.value, points.value) == pytest.approx((40.0, 70.0))
    assert (net.low, net.high) == pytest.approx((2 * points.low - 100, 2 * points.high - 100))
    assert points.low < 70.0 < points.high


def test_shares_of_turns_are_means_over_games():
    # shares of the turns won: 30, 40, 40 and 50 %
    counted = replace(tally({"-0.1": 1, "0": 3}), turns={"30 30 40": 1, "40 20 40": 2, "50 0 50": 1})
    won, drawn, lost = (estimate([counted], figure) for figure in ("turns won", "turns drawn", "turns lost"))
    assert won is not None
    assert drawn is not None
    assert lost is not None
    assert (won.value, drawn.value, lost.value) == pytest.approx((40.0, 17.5, 42.5))
    assert (won.games, won.interval) == (4, "games")
    assert won.low < 40.0 < won.high
    # a game is one observation: the interval is that of four shares and not of 400 turns
    assert won.high - won.low > 10.0
    assert estimate([tally({"1": 4})], "turns won") is None


def test_shares_of_turns_over_seeds_have_students_interval():
    # 30, 40, 50 %: 40 -+ 4.303 * 10 / sqrt(3)
    games = [replace(tally({"0": 5}, seed=won), turns={f"{won} {100 - 2 * won} {won}": 5}) for won in (30, 40, 50)]
    got = estimate(games, "turns won")
    half = 4.303 * 10 / math.sqrt(3)
    assert got is not None
    assert (got.value, got.low, got.high) == pytest.approx((40.0, 40.0 - half, 40.0 + half))


def test_training_seeds_are_the_observations_and_their_interval_is_students():
    # 50, 60, 70 %: standard deviation 10, t with 2 degrees 4.303, so 60 -+ 4.303 * 10 / sqrt(3)
    games = [tally({"1": won, "-1": 10 - won}, seed=won) for won in (5, 6, 7)]
    got = estimate(games, "won")
    half = 4.303 * 10 / math.sqrt(3)
    assert got is not None
    assert (got.value, got.low, got.high) == pytest.approx((60.0, 60.0 - half, 60.0 + half))
    assert (got.games, got.seeds, got.interval) == (30, 3, "seeds")


def test_equal_seeds_have_the_interval_of_their_games():
    all_won = [tally({"1": 12}, seed=seed) for seed in range(3)]
    got, pooled = estimate(all_won, "won"), estimate([tally({"1": 36})], "won")
    assert got is not None
    assert pooled is not None
    assert (got.value, got.low, got.high) == (100.0, pooled.low, 100.0)
    assert pooled.low == pytest.approx(90.36, abs=0.01)  # 36 / (36 + 3.8415)
    assert (got.seeds, got.interval) == (3, "seeds")
    apart = difference(all_won, [tally({"-1": 12}, seed=seed) for seed in range(3)], "won")
    assert apart is not None
    assert apart.low == pytest.approx(100.0 - math.hypot(100.0 - pooled.low, 100.0 - pooled.low))


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "games", "share"), [(2, 20, 0.9), (2, 20, 0.98), (3, 20, 0.98), (3, 100, 0.998)])
def test_the_interval_over_few_seeds_keeps_its_coverage_near_the_end(seeds, games, share):
    rng, covered = np.random.default_rng(5), 0
    for _ in range(1_000):
        won = rng.binomial(games, share, seeds)
        got = estimate([tally({"1": int(n), "-1": games - int(n)}, seed=seed) for seed, n in enumerate(won)], "won")
        assert got is not None
        covered += got.low <= 100.0 * share <= got.high
    assert covered / 1_000 >= 0.94


def test_a_difference_is_paired_over_the_seeds_that_both_have():
    first = [tally({"1": won, "-1": 100 - won}, seed=seed) for seed, won in enumerate((60, 70, 65))]
    second = [tally({"1": won, "-1": 100 - won}, seed=seed) for seed, won in enumerate((55, 64))]
    got = difference(first, second, "won")
    assert got is not None
    assert got == difference(first[:2], second, "won")
    assert (got.value, got.seeds, got.games, got.interval) == (pytest.approx(5.5), 2, 400, "seeds")
    alone = difference(first, second[:1], "won")
    assert alone is not None
    assert alone.interval == "seeds"  # one of its parts is over seeds


def test_games_of_untrained_players_are_pooled_over_seeds():
    games = [tally({"1": 4, "-1": 1}, seed=0, trained=False), tally({"1": 4, "-1": 1}, seed=1, trained=False)]
    got, alone = estimate(games, "won"), estimate([tally({"1": 8, "-1": 2}, trained=False)], "won")
    assert got is not None
    assert alone is not None
    assert (got.value, got.low, got.high, got.interval) == (alone.value, alone.low, alone.high, "games")


def test_a_difference_over_equal_seeds_is_paired():
    # differences 10, 20, 30 points: 20 -+ 4.303 * 10 / sqrt(3)
    first = [tally({"1": won, "-1": 10 - won}, seed=seed) for seed, won in enumerate((6, 8, 10))]
    second = [tally({"1": won, "-1": 10 - won}, seed=seed) for seed, won in enumerate((5, 6, 7))]
    got = difference(first, second, "won")
    half = 4.303 * 10 / math.sqrt(3)
    assert got is not None
    assert (got.value, got.low, got.high) == pytest.approx((20.0, 20.0 - half, 20.0 + half))


def test_a_difference_of_single_seeds_joins_the_intervals_of_both():
    first, second = estimate([tally({"1": 8, "-1": 2})], "won"), estimate([tally({"1": 5, "-1": 5})], "won")
    got = difference([tally({"1": 8, "-1": 2})], [tally({"1": 5, "-1": 5})], "won")
    assert first is not None
    assert second is not None
    assert got is not None
    assert got.low == pytest.approx(30.0 - math.hypot(80.0 - first.low, second.high - 50.0))
    assert got.high == pytest.approx(30.0 + math.hypot(first.high - 80.0, 50.0 - second.low))


def test_there_is_no_estimate_without_games():
    assert estimate([], "won") is None
    assert difference([tally({"1": 1})], [], "won") is None
    assert verdict(None, Bar(match=1.0)) == "not run"


@pytest.mark.parametrize(
    ("value", "low", "high", "wanted"),
    [
        (90.0, 86.0, 93.0, "beaten"),  # all of it above the figure to beat
        (84.0, 81.0, 86.0, "matched"),  # all of it above the figure to match
        (80.0, 77.0, 83.0, "matched"),  # holds the figure and is narrow
        (80.0, 60.0, 92.0, "undecided"),  # holds the figure and is wide
        (70.0, 65.0, 79.9, "missed"),
    ],
)
def test_a_higher_figure_is_better(value, low, high, wanted):
    assert verdict(found(value, low, high), Bar(match=80.0, beat=85.0)) == wanted


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.0, 0.4, "beaten"), (0.2, 1.9, "matched"), (2.5, 6.0, "missed"), (0.0, 20.0, "undecided")],
)
def test_a_lower_figure_is_better_for_losses(low, high, wanted):
    assert verdict(found((low + high) / 2, low, high), Bar(better="lower", match=2.0, beat=0.5)) == wanted


@pytest.mark.parametrize(
    ("low", "high", "wanted"), [(-1.0, 2.0, "matched"), (-4.0, 2.0, "undecided"), (3.5, 6.0, "missed"), (-9.0, -3.1, "missed")]
)
def test_an_equal_figure_must_lie_within_the_tolerance_with_its_interval(low, high, wanted):
    assert verdict(found((low + high) / 2, low, high), Bar(better="equal", match=0.0, tolerance=3.0)) == wanted


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (5.5, 7.0, "beaten"),
        (0.1, 3.0, "matched"),  # an advantage, if a smaller one
        (-0.1, 0.2, "undecided"),  # as narrow as it is, it holds no advantage
        (0.0, 0.0, "undecided"),
        (-3.0, -0.1, "missed"),
    ],
)
def test_without_a_tolerance_an_interval_that_holds_no_advantage_is_undecided(better, low, high, wanted):
    sign = 1.0 if better == "higher" else -1.0
    low, high = sorted((sign * low, sign * high))
    bar = Bar(better=better, match=0.0, beat=sign * 5.0, tolerance=0.0)
    assert verdict(found((low + high) / 2, low, high), bar) == wanted


def test_without_a_figure_to_beat_the_one_to_match_counts():
    assert verdict(found(90.0, 86.0, 93.0), Bar(match=85.0)) == "beaten"
    assert verdict(found(88.0, 84.0, 92.0), Bar(match=85.0)) == "matched"
