import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games.core import make
from zerofleet.errors import ConfigurationError
from zerofleet.presets import preset
from zerofleet.ratings import PENTANOMIAL_SCORES, Sprt, Verdict, histogram, share_from_elo
from zerofleet.ratings.likelihood import misfit

# A field of pairs with some draws and some luck of the opening; the tests tilt it to the strength they want.
LEVEL_FIELD = np.array([0.08, 0.15, 0.54, 0.15, 0.08])
IDENTICAL_AND_DRAWISH = np.array([0.001, 0.02, 0.958, 0.02, 0.001])


def field_with_mean(mean, field=LEVEL_FIELD):
    """Return pair probabilities [5] with that mean share: the field, tilted exponentially."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        tilted = field * np.exp(middle * PENTANOMIAL_SCORES)
        tilted /= tilted.sum()
        low, high = (middle, high) if tilted @ PENTANOMIAL_SCORES < mean else (low, middle)
    return tilted


def simulate(test, probabilities, *, runs, max_pairs, seed):
    """Return how many of `runs` tests ended as stronger, not stronger, and undecided after `max_pairs`."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((runs, 5))
    stronger = weaker = 0
    for _ in range(max_pairs):
        outcomes = rng.choice(5, size=len(counts), p=probabilities)
        counts[np.arange(len(counts)), outcomes] += 1
        ratios = test.log_likelihood_ratio(counts, PENTANOMIAL_SCORES)
        stronger += int((ratios >= test.upper).sum())
        weaker += int((ratios <= test.lower).sum())
        counts = counts[(ratios < test.upper) & (ratios > test.lower)]
        if not len(counts):
            break
    return stronger, weaker, len(counts)


def allowed(rate, runs):
    return runs * rate + 3.0 * math.sqrt(runs * rate * (1.0 - rate))


@pytest.mark.slow
@pytest.mark.parametrize("field", [LEVEL_FIELD, np.array([0.25, 0.02, 0.46, 0.02, 0.25])], ids=["drawish", "decisive"])
def test_error_rates_stay_below_alpha_and_beta(field):
    test, runs = Sprt(elo0=0.0, elo1=80.0), 10_000
    at_null = field_with_mean(share_from_elo(test.elo0), field)
    at_alternative = field_with_mean(share_from_elo(test.elo1), field)
    false_passes, _, open_null = simulate(test, at_null, runs=runs, max_pairs=2_000, seed=1)
    _, false_fails, open_alternative = simulate(test, at_alternative, runs=runs, max_pairs=2_000, seed=2)
    assert (open_null, open_alternative) == (0, 0)
    assert false_passes <= allowed(test.alpha, runs)
    assert false_fails <= allowed(test.beta, runs)


@pytest.mark.slow
def test_unequal_error_rates_are_kept_each():
    test, runs = Sprt(elo0=0.0, elo1=80.0, alpha=0.01, beta=0.2), 5_000
    false_passes, _, _ = simulate(test, field_with_mean(0.5), runs=runs, max_pairs=2_000, seed=3)
    _, false_fails, _ = simulate(test, field_with_mean(share_from_elo(80.0)), runs=runs, max_pairs=2_000, seed=4)
    assert false_passes <= allowed(test.alpha, runs)
    assert false_fails <= allowed(test.beta, runs)


@pytest.mark.slow
def test_identical_players_are_not_promoted_more_often_than_alpha():
    test, runs = Sprt(elo0=0.0, elo1=40.0), 4_000
    for field in (IDENTICAL_AND_DRAWISH, field_with_mean(0.5)):
        passes, _, _ = simulate(test, field, runs=runs, max_pairs=1_000, seed=5)
        assert passes <= allowed(test.alpha, runs)


def test_a_worse_candidate_passes_less_often_than_an_equal_one():
    test = Sprt(elo0=0.0, elo1=80.0)
    worse, _, _ = simulate(test, field_with_mean(share_from_elo(-60.0)), runs=400, max_pairs=300, seed=6)
    assert worse <= 2


def test_the_ratio_agrees_with_the_normal_approximation_where_that_holds():
    # LLR ~ N (s1 - s0) (2 mean - s0 - s1) / (2 variance), Van den Bergh's approximation for close hypotheses.
    counts = np.array([90.0, 210.0, 520.0, 260.0, 120.0])
    test = Sprt(elo0=0.0, elo1=5.0)
    shares = counts / counts.sum()
    mean = shares @ PENTANOMIAL_SCORES
    variance = shares @ (PENTANOMIAL_SCORES - mean) ** 2
    s0, s1 = share_from_elo(0.0), share_from_elo(5.0)
    approximate = counts.sum() * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * variance)
    assert test.log_likelihood_ratio(counts, PENTANOMIAL_SCORES) == pytest.approx(approximate, rel=0.02)


def test_one_lucky_pair_decides_nothing():
    test = Sprt(elo0=-10.0, elo1=25.0)
    ratio = float(test.log_likelihood_ratio(np.array([0, 0, 0, 0, 1]), PENTANOMIAL_SCORES))
    assert 0.0 < ratio < 0.2
    assert test.verdict(ratio) is Verdict.CONTINUE


def test_bounds_are_walds_and_name_the_verdicts():
    test = Sprt(elo0=0.0, elo1=10.0, alpha=0.05, beta=0.05)
    assert (test.lower, test.upper) == pytest.approx((-2.9444389, 2.9444389))
    assert test.verdict(test.upper) is Verdict.STRONGER
    assert test.verdict(test.lower) is Verdict.NOT_STRONGER
    assert test.verdict(0.0) is Verdict.CONTINUE


@pytest.mark.parametrize("numbers", [(10.0, 10.0, 0.05, 0.05), (0.0, 10.0, 0.0, 0.05), (0.0, 10.0, 0.05, 0.5)])
def test_impossible_tests_are_refused(numbers):
    with pytest.raises(ConfigurationError):
        Sprt(*numbers)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=5, max_size=5).filter(any), st.floats(0.02, 0.98))
def test_misfit_is_the_smallest_loss_over_all_distributions_with_that_mean(counts, mean):
    counts = np.array(counts, dtype=np.float64)
    loss = float(misfit(counts, PENTANOMIAL_SCORES, mean))
    weights = np.where(counts == 0, 1e-3, counts)
    shares = weights / weights.sum()
    assert loss >= -1e-9
    # Any other distribution with that mean explains the counts no better.
    other = field_with_mean(mean, shares)
    assert loss <= weights @ np.log(shares / other) + 1e-6


@given(st.lists(st.integers(0, 40), min_size=5, max_size=5).filter(any))
def test_swapping_the_players_mirrors_the_ratio(counts):
    test, mirrored = Sprt(elo0=-10.0, elo1=25.0), Sprt(elo0=-25.0, elo1=10.0)
    forward = test.log_likelihood_ratio(np.array(counts), PENTANOMIAL_SCORES)
    backward = mirrored.log_likelihood_ratio(np.array(counts[::-1]), PENTANOMIAL_SCORES)
    assert forward == pytest.approx(-backward, abs=1e-6)


def test_scores_between_the_five_get_a_place_of_their_own():
    counts, scores = histogram(np.array([0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0]))
    assert scores == pytest.approx([0.0, 0.25, 1.0 / 3.0, 0.5, 0.75, 1.0])
    assert counts.tolist() == [0, 0, 2, 1, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("field", [LEVEL_FIELD, np.array([0.2, 0.05, 0.5, 0.05, 0.2])], ids=["drawish", "decisive"])
def test_the_error_rate_of_the_laptop_preset_holds_with_its_last_pair(field):
    gate, runs = preset(make("connect_four"), "laptop").gate, 3_000
    test = Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta)
    passed, _, _ = simulate(
        test, field_with_mean(share_from_elo(gate.elo0), field), runs=runs, max_pairs=gate.max_pairs, seed=8
    )
    assert passed <= allowed(gate.alpha, runs)
