import pytest

from games.core import make
from zerofleet.presets import preset
from zerofleet.strength.matches import FixedGames, SequentialTest, ShareOfPoints, Standing
from zerofleet.strength.matches.scoreboard import SeatTally
from zerofleet.strength.ratings import Sprt, Verdict


def standing(*scores):
    return Standing(scores, {(0, 1): SeatTally(len(scores), 0, 0), (1, 0): SeatTally(0, 0, len(scores))})


def test_fixed_games_decide_only_at_the_end():
    rule = FixedGames()
    assert rule.decide(standing(1.0, 1.0), is_last=False) is None
    assert rule.decide(standing(1.0, 0.5), is_last=True).first_wins
    assert not rule.decide(standing(0.5, 0.5), is_last=True).first_wins
    assert rule.log_likelihood_ratio(standing(1.0)) == 0.0


def test_a_share_is_not_looked_at_before_the_last_game():
    rule = ShareOfPoints(0.55, 10)
    assert rule.decide(standing(*[1.0] * 5), is_last=False) is None
    assert rule.decide(standing(), is_last=False) is None


def test_a_match_ends_when_its_decision_can_no_longer_change():
    rule = ShareOfPoints(0.55, 10)
    assert rule.decide(standing(*[1.0] * 5, 0.5), is_last=False).first_wins
    assert not rule.decide(standing(*[0.0] * 4, 0.25), is_last=False).first_wins
    assert rule.decide(standing(*[0.0] * 4, 0.5), is_last=False) is None


def test_exactly_the_required_share_passes():
    rule = ShareOfPoints(0.55, 10)
    exact = [1.0] * 5 + [0.5] + [0.0] * 4
    assert rule.decide(standing(*exact), is_last=True).first_wins
    assert not rule.decide(standing(*[1.0] * 5, 0.25, *[0.0] * 4), is_last=True).first_wins


def test_the_share_of_a_match_that_ran_out_of_openings_counts_the_played_groups():
    assert ShareOfPoints(0.55, 100).decide(standing(1.0, 0.5), is_last=True).first_wins
    assert not ShareOfPoints(0.55, 100).decide(standing(0.5, 0.5), is_last=True).first_wins


def test_the_sequential_test_ends_at_its_bounds_and_states_the_reason():
    rule = SequentialTest(Sprt(elo0=-10.0, elo1=60.0))
    assert rule.decide(standing(), is_last=False) is None
    assert rule.decide(standing(1.0, 1.0), is_last=False) is None
    passed = rule.decide(standing(*[1.0, 0.75] * 30), is_last=False)
    assert passed.first_wins
    assert passed.reason.startswith("not weaker than -10 Elo: 60 won, 0 drawn, 60 lost (87.5%)")
    failed = rule.decide(standing(*[0.0, 0.25] * 30), is_last=False)
    assert not failed.first_wins
    assert failed.reason.startswith("not stronger than +60 Elo: ")


def test_the_reason_names_what_was_shown_and_not_more():
    """Half of the points reject -25 Elo, and say nothing of a stronger player."""
    lenient = SequentialTest(Sprt(elo0=-50.0, elo1=25.0))
    level = lenient.decide(standing(*[0.5] * 60), is_last=False)
    assert level.first_wins
    assert level.reason.startswith("not weaker than -50 Elo: ")
    assert [Sprt(elo0, 90.0).conclusion(Verdict.STRONGER) for elo0 in (-5.0, 0.0, 10.0)] == [
        "not weaker than -5 Elo",
        "stronger",
        "stronger than +10 Elo",
    ]
    assert [Sprt(-90.0, elo1).conclusion(Verdict.NOT_STRONGER) for elo1 in (-5.0, 0.0, 10.0)] == [
        "weaker than -5 Elo",
        "weaker",
        "not stronger than +10 Elo",
    ]


def test_ten_clean_pairs_decide_the_laptops_test_and_five_do_not():
    gate = preset(make("connect_four"), "laptop").gate
    rule = SequentialTest(Sprt(gate.elo0, gate.elo1, gate.alpha, gate.beta))
    assert rule.decide(standing(*[1.0] * 5), is_last=False) is None
    assert rule.decide(standing(*[1.0] * 10), is_last=False).first_wins
    assert rule.decide(standing(*[1.0] * 9, 0.5), is_last=False).first_wins
    assert rule.decide(standing(*[0.0] * 5), is_last=False) is None
    assert not rule.decide(standing(*[0.0] * 10), is_last=False).first_wins


@pytest.mark.parametrize("scores", [(1.0, 0.75), (0.5, 0.25), (0.5, 0.5)])
def test_an_undecided_test_passes_nobody_so_that_its_error_rate_holds(scores):
    decision = SequentialTest(Sprt(elo0=0.0, elo1=5.0)).decide(standing(*scores), is_last=True)
    assert not decision.first_wins
    assert decision.undecided
    assert decision.reason.startswith("undecided at the last game: ")


def test_an_undecided_test_may_pass_where_the_other_side_bears_the_burden_of_proof():
    rule = SequentialTest(Sprt(elo0=-50.0, elo1=0.0), undecided_passes=True)
    undecided = rule.decide(standing(0.5, 0.25), is_last=True)
    assert (undecided.first_wins, undecided.undecided) == (True, True)
    weaker = rule.decide(standing(*[0.0] * 15), is_last=True)
    assert (weaker.first_wins, weaker.undecided) == (False, False)
    assert weaker.reason.startswith("weaker: ")
