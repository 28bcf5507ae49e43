import math

import numpy as np
import pytest
from gate_tests import GATE, LAPTOP, allowed
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.gate_simulation import DECISIVE, DRAWISH, simulate, tilted
from games.core import make
from zerofleet.agents import make_agent
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.presets.gate_rules import stopping_rule
from zerofleet.strength.matches import MatchSettings, MatchTerms, Player, Scoreboard, play_games
from zerofleet.strength.ratings import PENTANOMIAL_SCORES, Sprt, Verdict, histogram, share_from_elo
from zerofleet.strength.ratings.likelihood import misfit

IDENTICAL_AND_DRAWISH = np.array([0.001, 0.02, 0.958, 0.02, 0.001])


@pytest.mark.slow
@pytest.mark.parametrize("field", [DRAWISH, np.array([0.25, 0.02, 0.46, 0.02, 0.25])], ids=["drawish", "decisive"])
def test_error_rates_stay_below_alpha_and_beta(field):
    test, runs = Sprt(elo0=0.0, elo1=80.0), 1_500
    at_null = tilted(field, share_from_elo(test.elo0))
    at_alternative = tilted(field, share_from_elo(test.elo1))
    null = simulate(test, at_null, runs=runs, max_pairs=2_000, seed=1)
    alternative = simulate(test, at_alternative, runs=runs, max_pairs=2_000, seed=2)
    assert (null.undecided, alternative.undecided) == (0, 0)
    assert null.stronger <= allowed(test.alpha, runs)
    assert alternative.not_stronger <= allowed(test.beta, runs)


@pytest.mark.slow
def test_unequal_error_rates_are_both_kept():
    test, runs = Sprt(elo0=0.0, elo1=80.0, alpha=0.01, beta=0.2), 1_000
    null = simulate(test, DRAWISH, runs=runs, max_pairs=2_000, seed=3)
    alternative = simulate(test, tilted(DRAWISH, share_from_elo(80.0)), runs=runs, max_pairs=2_000, seed=4)
    assert null.stronger <= allowed(test.alpha, runs)
    assert alternative.not_stronger <= allowed(test.beta, runs)


@pytest.mark.slow
def test_identical_players_are_not_promoted_more_often_than_alpha():
    test, runs = Sprt(elo0=0.0, elo1=60.0), 400
    for field in (IDENTICAL_AND_DRAWISH, DRAWISH):
        simulated = simulate(test, field, runs=runs, max_pairs=1_000, seed=5)
        assert simulated.stronger <= allowed(test.alpha, runs)


def test_a_worse_candidate_passes_less_often_than_an_equal_one():
    test = Sprt(elo0=0.0, elo1=80.0)
    worse = simulate(test, tilted(DRAWISH, share_from_elo(-60.0)), runs=400, max_pairs=300, seed=6)
    assert worse.stronger <= 2


def test_the_log_likelihood_ratio_agrees_with_the_normal_approximation_where_valid():
    # LLR ~ N (s1 - s0) (2 mean - s0 - s1) / (2 variance), Van den Bergh's approximation for close hypotheses.
    counts = np.array([90.0, 210.0, 520.0, 260.0, 120.0])
    test = Sprt(elo0=0.0, elo1=5.0)
    shares = counts / counts.sum()
    mean = shares @ PENTANOMIAL_SCORES
    variance = shares @ (PENTANOMIAL_SCORES - mean) ** 2
    s0, s1 = share_from_elo(0.0), share_from_elo(5.0)
    approximate = counts.sum() * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * variance)
    assert test.log_likelihood_ratio(counts, PENTANOMIAL_SCORES) == pytest.approx(approximate, rel=0.02)


def test_a_single_won_pair_does_not_decide_the_test():
    test = Sprt(elo0=-10.0, elo1=25.0)
    ratio = float(test.log_likelihood_ratio(np.array([0, 0, 0, 0, 1]), PENTANOMIAL_SCORES))
    assert 0.0 < ratio < 0.2
    evidence = float(test.evidence(np.array([0, 0, 0, 0, 1]), PENTANOMIAL_SCORES))
    assert test.verdict(evidence) is Verdict.CONTINUE


def test_the_bounds_are_those_of_wald_and_give_the_verdicts():
    test = Sprt(elo0=0.0, elo1=10.0, alpha=0.05, beta=0.05)
    assert (test.lower, test.upper) == pytest.approx((-2.9444389, 2.9444389))
    assert test.verdict(test.upper) is Verdict.STRONGER
    assert test.verdict(test.lower) is Verdict.NOT_STRONGER
    assert test.verdict(0.0) is Verdict.CONTINUE


@pytest.mark.parametrize("numbers", [(10.0, 10.0, 0.05, 0.05), (0.0, 10.0, 0.0, 0.05), (0.0, 10.0, 0.05, 0.5)])
def test_impossible_sequential_tests_are_rejected(numbers):
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
    other = tilted(shares, mean)
    assert loss <= weights @ np.log(shares / other) + 1e-6


@given(st.lists(st.integers(0, 40), min_size=5, max_size=5).filter(any))
def test_swapping_the_players_mirrors_the_log_likelihood_ratio(counts):
    test, mirrored = Sprt(elo0=-10.0, elo1=25.0), Sprt(elo0=-25.0, elo1=10.0)
    forward = test.log_likelihood_ratio(np.array(counts), PENTANOMIAL_SCORES)
    backward = mirrored.log_likelihood_ratio(np.array(counts[::-1]), PENTANOMIAL_SCORES)
    assert forward == pytest.approx(-backward, abs=1e-6)


@pytest.mark.parametrize(
    ("elo0", "elo1"), [(30.0, 0.0), (0.0, 200_000.0), (-200_000.0, 0.0), (math.nan, 30.0), (0.0, math.inf)]
)
def test_a_test_of_impossible_differences_is_refused(elo0, elo1):
    with pytest.raises(ConfigurationError, match=r"needs elo0 < elo1, both from -4000 to 4000, got"):
        Sprt(elo0, elo1)


def test_the_largest_differences_have_evidence():
    counts = np.array([3, 1, 2, 1, 4])
    for test in (Sprt(0.0, 4000.0), Sprt(-4000.0, 0.0), Sprt(-4000.0, 4000.0)):
        assert math.isfinite(test.evidence(counts, PENTANOMIAL_SCORES))


def test_scores_outside_the_pentanomial_five_extend_the_support():
    counts, scores = histogram(np.array([0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0]))
    assert scores == pytest.approx([0.0, 0.25, 1.0 / 3.0, 0.5, 0.75, 1.0])
    assert counts.tolist() == [0, 0, 2, 1, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("field", [DRAWISH, DECISIVE], ids=["drawish", "decisive"])
@pytest.mark.parametrize("mode", LAPTOP)
def test_the_error_rates_of_the_laptop_preset_hold_with_its_last_pair(mode, field):
    """Also with the bounds of the mode that the preset does not select."""
    test, runs = LAPTOP[mode], 800
    null = simulate(test, tilted(field, share_from_elo(test.elo0)), runs=runs, max_pairs=GATE.max_pairs, seed=8)
    assert null.stronger <= allowed(GATE.alpha, runs)
    alternative = simulate(test, tilted(field, share_from_elo(test.elo1)), runs=runs, max_pairs=GATE.max_pairs, seed=10)
    assert alternative.not_stronger <= allowed(GATE.beta, runs)
    assert null.not_stronger > 0.75 * runs < alternative.stronger  # the last pair leaves few of them undecided


def test_the_laptop_preset_runs_the_bounds_of_its_watch():
    test = stopping_rule(GATE).sprt
    assert GATE.mode == "watch"
    assert (test.elo0, test.elo1, test.alpha, test.beta) == (GATE.watch_elo0, GATE.watch_elo1, GATE.alpha, GATE.beta)


def make_twin(text, game, *, evaluate=None):
    """Return a random player, whatever it is called: two of them differ by name alone."""
    return make_agent("random", game)


@pytest.mark.slow
async def test_a_match_of_identical_players_is_decided_no_more_often_than_its_error_rate():
    # Real pairs from lopsided openings, in which whoever has the better side tends to win. As the two players are one and
    # the same, each pair might as well have ended the other way round; the field of both is level exactly.
    game = make("tic_tac_toe")
    terms = MatchTerms("twins", game, (Player("one"), Player("other")), seed=3, opening_plies=3, max_groups=150)
    board = Scoreboard(terms)
    games = play_games(
        game, board.open_pairings(), UniformEvaluator(2), settings=MatchSettings(simulations=0), make_agent=make_twin
    )
    async for result in games:
        board.record(result)
    counts = np.array(board.standing().pentanomial, dtype=np.float64)
    field = (counts + counts[::-1]) / (2.0 * counts.sum())
    runs = 400
    one_sided = simulate(Sprt(elo0=0.0, elo1=60.0), field, runs=runs, max_pairs=2_000, seed=9)
    assert one_sided.stronger <= allowed(0.05, runs)
    # Asked both ways round, "stronger" and "weaker": twice the rate at most.
    two_sided = simulate(Sprt(elo0=-60.0, elo1=0.0), field, runs=runs, max_pairs=2_000, seed=9)
    assert two_sided.not_stronger + one_sided.stronger <= allowed(0.1, runs)
