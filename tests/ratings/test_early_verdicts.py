"""Early verdicts: the sequential test with its bet keeps its error rates, whatever the scores, and is short where it can be."""

import math

import numpy as np
import pytest
from gate_tests import GATE, LAPTOP, allowed
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gate_simulation import DECISIVE, DRAWISH, simulate, tilted
from zerofleet.presets.gate_rules import stopping_rule
from zerofleet.strength.ratings import PENTANOMIAL_SCORES, Sprt, Verdict, share_from_elo
from zerofleet.strength.ratings.betting import FRACTIONS, log_capital
from zerofleet.strength.ratings.likelihood import misfit

TESTS = [*LAPTOP.values(), Sprt(elo0=0.0, elo1=200.0)]
RUNS = 1_000
SEEDS = range(4)
MEANS = st.floats(0.05, 0.95)
COUNTS = st.lists(st.integers(0, 50), min_size=5, max_size=5).filter(any)


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


BY_FIELD = pytest.mark.parametrize("field", [DRAWISH, DECISIVE], ids=["drawish", "decisive"])
BY_MODE = pytest.mark.parametrize("mode", LAPTOP)


@pytest.mark.slow
@BY_FIELD
@BY_MODE
def test_error_rates_of_the_laptops_tests_hold_at_both_hypotheses(mode, field):
    test = LAPTOP[mode]
    null = simulate(test, tilted(field, share_from_elo(test.elo0)), runs=2_000, max_pairs=200, seed=11)
    assert null.stronger <= allowed(test.alpha, 2_000)
    alternative = simulate(test, tilted(field, share_from_elo(test.elo1)), runs=2_000, max_pairs=200, seed=12)
    assert alternative.not_stronger <= allowed(test.beta, 2_000)


def measured(field, elo, *, max_pairs=GATE.max_pairs, seeds=SEEDS):
    """Return the shares of versions of a true strength that the laptop's test confirms, rolls back and leaves undecided.

    The last value is the number of versions: 2,000 for each seed.
    """
    at = tilted(field, share_from_elo(elo))
    found = [simulate(stopping_rule(GATE).sprt, at, runs=2_000, max_pairs=max_pairs, seed=seed) for seed in seeds]
    runs = sum(tests.runs for tests in found)
    counts = [sum(getattr(tests, name) for tests in found) for name in ("stronger", "not_stronger", "undecided")]
    return *(count / runs for count in counts), runs


@pytest.mark.slow
@BY_FIELD
def test_the_laptops_watch_confirms_a_version_at_its_lower_bound_no_more_often_than_alpha(field):
    confirmed, rolled_back, undecided, runs = measured(field, GATE.watch_elo0)
    assert confirmed <= allowed(GATE.alpha, runs) / runs
    assert rolled_back >= 0.8
    assert undecided > 0.0  # these stay, unconfirmed


@pytest.mark.slow
@BY_FIELD
def test_the_laptops_watch_rolls_back_an_equal_version_no_more_often_than_beta(field):
    confirmed, rolled_back, _, runs = measured(field, GATE.watch_elo1)
    assert GATE.watch_elo1 == 0.0
    assert rolled_back <= allowed(GATE.beta, runs) / runs
    assert confirmed >= 0.8


@pytest.mark.slow
@BY_FIELD
def test_only_the_last_pair_keeps_the_watch_from_rolling_back_a_version_at_its_lower_bound(field):
    """Docs/decisions/0013-watch.md: it is found with probability 1 - alpha, less often only if `max_pairs` ends the test."""
    confirmed, rolled_back, undecided, runs = measured(field, GATE.watch_elo0, max_pairs=1_000, seeds=SEEDS[:1])
    assert undecided == 0.0
    assert rolled_back == pytest.approx(1.0 - confirmed)
    assert confirmed <= allowed(GATE.alpha, runs) / runs


@BY_MODE
def test_far_stronger_and_far_weaker_candidates_are_never_mistaken(mode):
    for elo, wrong in ((-800.0, "stronger"), (-300.0, "stronger"), (300.0, "not_stronger"), (800.0, "not_stronger")):
        simulated = simulate(LAPTOP[mode], tilted(DECISIVE, share_from_elo(elo)), runs=RUNS, max_pairs=100, seed=13)
        assert (getattr(simulated, wrong), simulated.undecided) == (0, 0)


@BY_FIELD
@pytest.mark.parametrize(
    ("mode", "elo", "at_most", "longest"),
    [
        *(("watch", elo, at_most, 17) for elo, at_most in ((-800.0, 9.0), (-300.0, 12.0), (300.0, 8.5), (800.0, 6.5))),
        *(("sprt", elo, at_most, 16) for elo, at_most in ((-800.0, 8.0), (-300.0, 10.5), (300.0, 10.5), (800.0, 8.0))),
    ],
)
def test_extreme_differences_are_decided_in_a_few_pairs(mode, field, elo, at_most, longest):
    """The watch expects versions around -37 Elo, so that a much weaker one is nearer to it than a much stronger one."""
    simulated = simulate(LAPTOP[mode], tilted(field, share_from_elo(elo)), runs=RUNS, max_pairs=100, seed=14)
    assert simulated.mean_pairs <= at_most
    assert simulated.longest_5_percent <= longest


@pytest.mark.slow
@BY_MODE
@pytest.mark.parametrize("elo", [-200.0, -25.0, 0.0, 50.0, 100.0, 800.0])
def test_the_bet_never_costs_more_than_a_twentieth_of_the_pairs(elo, mode):
    field = tilted(DECISIVE, share_from_elo(elo))
    without = simulate(LAPTOP[mode], field, runs=RUNS, max_pairs=100, seed=15, statistic=Sprt.log_likelihood_ratio)
    assert simulate(LAPTOP[mode], field, runs=RUNS, max_pairs=100, seed=15).mean_pairs <= 1.05 * without.mean_pairs


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
@given(COUNTS, st.sampled_from(list(LAPTOP.values())))
def test_swapping_the_players_mirrors_the_evidence(counts, test):
    mirrored = Sprt(elo0=-test.elo1, elo1=-test.elo0)
    forward = test.evidence(np.array(counts), PENTANOMIAL_SCORES)
    assert forward == pytest.approx(-mirrored.evidence(np.array(counts[::-1]), PENTANOMIAL_SCORES), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.sampled_from(list(LAPTOP.values())))
def test_the_evidence_has_the_sign_of_the_likelihood_ratio_and_lags_it_by_the_share_of_the_bet_at_most(counts, test):
    ratio = float(test.log_likelihood_ratio(np.array(counts), PENTANOMIAL_SCORES))
    evidence = float(test.evidence(np.array(counts), PENTANOMIAL_SCORES))
    assert evidence * ratio >= 0.0
    assert abs(evidence) >= abs(ratio) + math.log(0.8) - 1e-9
    assert test.verdict(evidence) in Verdict
