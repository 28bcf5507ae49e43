"""Early verdicts: the sequential test with its bet keeps its error rates, whatever the scores, and is short where it can be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gate_simulation import DECISIVE, DRAWISH, simulate, tilted
from zerofleet.strength.ratings import PENTANOMIAL_SCORES, Sprt, Verdict, share_from_elo
from zerofleet.strength.ratings.betting import FRACTIONS, log_capital
from zerofleet.strength.ratings.likelihood import misfit

LAPTOP = Sprt(elo0=-25.0, elo1=50.0)
TESTS = [LAPTOP, Sprt(elo0=0.0, elo1=200.0)]
RUNS = 1_000
MEANS = st.floats(0.05, 0.95)
COUNTS = st.lists(st.integers(0, 50), min_size=5, max_size=5).filter(any)


def allowed(rate, runs=RUNS):
    return runs * rate + 3.0 * math.sqrt(runs * rate * (1.0 - rate))


def two_scores(low, high, mean):
    """Return the field with only the scores number `low` and `high`, and this mean."""
    weight = (mean - PENTANOMIAL_SCORES[low]) / (PENTANOMIAL_SCORES[high] - PENTANOMIAL_SCORES[low])
    field = np.zeros(5)
    field[[low, high]] = 1.0 - weight, weight
    return field


def extreme_fields(mean):
    """Return fields with this mean by name: all or nothing, tiny variance, skew, and an overwhelming opening side."""
    fields = {
        f"only {PENTANOMIAL_SCORES[low]:g} and {PENTANOMIAL_SCORES[high]:g}": two_scores(low, high, mean)
        for low, high in ((0, 4), (0, 2), (0, 3), (1, 4), (1, 2), (1, 3), (2, 4), (2, 3))
        if PENTANOMIAL_SCORES[low] < mean < PENTANOMIAL_SCORES[high]
    }
    shapes = {
        "nearly all drawn": [0.004, 0.004, 0.984, 0.004, 0.004],
        "drawn or a little more": [0.001, 0.001, 0.9, 0.097, 0.001],
        "drawn or a little less": [0.001, 0.097, 0.9, 0.001, 0.001],
        "clean sweeps": [0.49, 0.005, 0.01, 0.005, 0.49],
    }
    return fields | {name: tilted(np.array(shape), mean) for name, shape in shapes.items()}


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS, ids=lambda test: f"{test.elo0:g},{test.elo1:g}")
def test_error_rates_hold_for_extreme_scores_from_the_first_pair_on(test):
    for seed, (name, field) in enumerate(extreme_fields(share_from_elo(test.elo0)).items()):
        assert simulate(test, field, runs=500, max_pairs=150, seed=seed).stronger <= allowed(test.alpha, 500), name
    for seed, (name, field) in enumerate(extreme_fields(share_from_elo(test.elo1)).items()):
        assert simulate(test, field, runs=500, max_pairs=150, seed=seed).not_stronger <= allowed(test.beta, 500), name


@pytest.mark.slow
@pytest.mark.parametrize("field", [DRAWISH, DECISIVE], ids=["drawish", "decisive"])
def test_error_rates_of_the_laptops_test_hold_at_both_hypotheses(field):
    null = simulate(LAPTOP, tilted(field, share_from_elo(LAPTOP.elo0)), runs=2_000, max_pairs=200, seed=11)
    assert null.stronger <= allowed(LAPTOP.alpha, 2_000)
    alternative = simulate(LAPTOP, tilted(field, share_from_elo(LAPTOP.elo1)), runs=2_000, max_pairs=200, seed=12)
    assert alternative.not_stronger <= allowed(LAPTOP.beta, 2_000)


def test_far_stronger_and_far_weaker_candidates_are_never_mistaken():
    for elo, wrong in ((-800.0, "stronger"), (-300.0, "stronger"), (300.0, "not_stronger"), (800.0, "not_stronger")):
        simulated = simulate(LAPTOP, tilted(DECISIVE, share_from_elo(elo)), runs=RUNS, max_pairs=100, seed=13)
        assert (getattr(simulated, wrong), simulated.undecided) == (0, 0)


@pytest.mark.parametrize("field", [DRAWISH, DECISIVE], ids=["drawish", "decisive"])
@pytest.mark.parametrize(("elo", "at_most"), [(-800.0, 8.0), (-300.0, 10.5), (300.0, 10.5), (800.0, 8.0)])
def test_extreme_differences_are_decided_in_a_few_pairs(field, elo, at_most):
    simulated = simulate(LAPTOP, tilted(field, share_from_elo(elo)), runs=RUNS, max_pairs=100, seed=14)
    assert simulated.mean_pairs <= at_most
    assert simulated.longest_5_percent <= 16


@pytest.mark.parametrize("elo", [-200.0, -25.0, 0.0, 50.0, 100.0, 800.0])
def test_the_bet_never_costs_more_than_a_twentieth_of_the_pairs(elo):
    field = tilted(DECISIVE, share_from_elo(elo))
    without = simulate(LAPTOP, field, runs=RUNS, max_pairs=100, seed=15, statistic=Sprt.log_likelihood_ratio)
    assert simulate(LAPTOP, field, runs=RUNS, max_pairs=100, seed=15).mean_pairs <= 1.05 * without.mean_pairs


@settings(max_examples=50, deadline=None)
@given(MEANS, st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5))
def test_a_bet_against_a_true_mean_neither_gains_nor_loses_on_average(mean, weights):
    """The martingale property, on which the error rate of the bet rests, for any distribution of the scores."""
    field = tilted(np.array(weights) / np.sum(weights), mean)
    for side in ("above", "below"):
        after_one = np.exp([log_capital(pair, PENTANOMIAL_SCORES, mean, side=side) for pair in np.eye(5)])
        assert field @ after_one == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(COUNTS, MEANS)
def test_no_bet_gains_more_than_the_empirical_likelihood(counts, mean):
    loss = float(misfit(np.array(counts), PENTANOMIAL_SCORES, mean))
    for side in ("above", "below"):
        assert float(log_capital(np.array(counts), PENTANOMIAL_SCORES, mean, side=side)) <= loss + 0.05


@settings(max_examples=50, deadline=None)
@given(COUNTS, MEANS)
def test_the_capital_is_that_of_bets_placed_one_observation_after_the_other(counts, mean):
    for side, largest in (("above", 1.0 / mean), ("below", -1.0 / (1.0 - mean))):
        purses = [1.0 / len(FRACTIONS)] * len(FRACTIONS)
        for score in np.repeat(PENTANOMIAL_SCORES, counts)[:40]:
            purses = [purse * (1.0 + c * largest * (score - mean)) for purse, c in zip(purses, FRACTIONS, strict=True)]
        first = np.bincount(np.repeat(np.arange(5), counts)[:40], minlength=5)
        assert float(log_capital(first, PENTANOMIAL_SCORES, mean, side=side)) == pytest.approx(math.log(sum(purses)), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(COUNTS)
def test_swapping_the_players_mirrors_the_evidence(counts):
    mirrored = Sprt(elo0=-LAPTOP.elo1, elo1=-LAPTOP.elo0)
    forward = LAPTOP.evidence(np.array(counts), PENTANOMIAL_SCORES)
    assert forward == pytest.approx(-mirrored.evidence(np.array(counts[::-1]), PENTANOMIAL_SCORES), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(COUNTS)
def test_the_evidence_has_the_sign_of_the_likelihood_ratio_and_lags_it_by_the_share_of_the_bet_at_most(counts):
    ratio = float(LAPTOP.log_likelihood_ratio(np.array(counts), PENTANOMIAL_SCORES))
    evidence = float(LAPTOP.evidence(np.array(counts), PENTANOMIAL_SCORES))
    assert evidence * ratio >= 0.0
    assert abs(evidence) >= abs(ratio) + math.log(0.8) - 1e-9
    assert LAPTOP.verdict(evidence) in Verdict
