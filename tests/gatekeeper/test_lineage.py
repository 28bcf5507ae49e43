import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.contracts.lineage import confirmed_champion, confirmed_versions, holds_candidates, line_of, previous_version
from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion
from zerofleet.errors import ModelNotFound

MODEL = "tic_tac_toe"
TRIAL, PROMOTED, UNPROVEN, WEAKER = (
    CandidateStatus.TRIAL,
    CandidateStatus.PROMOTED,
    CandidateStatus.UNPROVEN,
    CandidateStatus.WEAKER,
)


def history(*versions):
    """Return a history; a negative number is a rollback to that version."""
    return [
        Champion(MODEL, abs(version), epoch, "ab", 0, "rollback" if version < 0 else "won")
        for epoch, version in enumerate(versions, 1)
    ]


def statuses(**known):
    return [Candidate(MODEL, int(name[1:]), status) for name, status in known.items()]


def line(*versions):
    return [champion.version for champion in line_of(history(*versions))]


def test_a_rollback_removes_everything_after_its_target():
    assert line(1, 2, 3, -2) == [1, 2]
    assert line(1, 2, 3, 4, -2, 5) == [1, 2, 5]
    assert line(1, 2, -1, 3, -1) == [1]
    assert line(1, 2, -1, 2, 3, -2) == [1, 2]


def test_the_line_keeps_the_promotion_of_a_champion_and_not_the_rollback_to_it():
    assert [champion.epoch for champion in line_of(history(1, 2, 3, -2))] == [1, 2]


def test_a_champion_that_is_promoted_again_takes_its_own_place_and_is_rolled_back_to_the_one_before():
    again = history(1, 2, 2)
    assert [champion.epoch for champion in line_of(again)] == [1, 3]
    assert previous_version(again) == 1
    assert line(1, 2, 2, -1) == [1]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.data())
def test_the_last_of_the_line_is_the_champion(versions, data):
    versions = [v for i, v in enumerate(versions) if i == 0 or v != versions[i - 1]]
    back = data.draw(st.sampled_from(versions))
    assert line(*versions)[-1] == versions[-1]
    if back != versions[-1]:
        assert line(*versions, -back)[-1] == back


def test_consecutive_rollbacks_go_further_back():
    assert previous_version(history(1, 2, 3)) == 2
    assert previous_version(history(1, 2, 3, -2)) == 1
    with pytest.raises(ModelNotFound):
        previous_version(history(1, 2, -1))


def test_the_last_confirmed_champion_is_neither_on_trial_nor_unproven():
    champions = history(1, 2, 3, 4)
    assert confirmed_champion(champions, statuses(v2=PROMOTED, v3=UNPROVEN, v4=TRIAL)).version == 2
    assert confirmed_champion(champions, statuses(v4=PROMOTED)).version == 4
    assert confirmed_champion(champions, []).version == 4  # nothing is known of a journal that was lost
    assert confirmed_champion([], statuses(v1=PROMOTED)) is None
    assert confirmed_champion(history(1), statuses(v1=UNPROVEN)) is None


def test_a_version_in_the_pointer_whose_verdict_is_not_noted_yet_is_not_confirmed():
    for status in (CandidateStatus.QUEUED, CandidateStatus.PLAYING):
        assert confirmed_champion(history(1, 2), statuses(v1=PROMOTED, v2=status)).version == 1
        assert confirmed_versions(history(1, 2), statuses(v1=PROMOTED, v2=status)) == [1]


def test_confirmed_versions_are_named_once_rolled_back_or_not():
    champions = history(1, 2, 3, -2, 4)
    assert confirmed_versions(champions, statuses(v1=PROMOTED, v2=PROMOTED, v3=PROMOTED, v4=TRIAL)) == [1, 2, 3]
    assert confirmed_versions(champions, statuses(v3=WEAKER)) == [1, 2, 4]
    assert confirmed_versions([], []) == []


def test_a_rolled_back_version_is_no_reference_even_if_it_was_confirmed():
    assert confirmed_champion(history(1, 2, -1), statuses(v1=PROMOTED, v2=PROMOTED)).version == 1


def test_candidates_are_held_from_a_weaker_version_to_the_next_confirmed_one():
    weaker = statuses(v1=PROMOTED, v2=WEAKER)
    assert holds_candidates(history(1, 2, -1), weaker)
    assert holds_candidates(history(1, 2, 3), [*weaker, *statuses(v3=TRIAL)])
    assert not holds_candidates(history(1, 2, 3), [*weaker, *statuses(v3=PROMOTED)])
    assert not holds_candidates(history(1, 2), statuses(v1=PROMOTED, v2=TRIAL))
    assert not holds_candidates([], [])


def test_a_rollback_whose_verdict_was_not_noted_before_a_crash_holds_candidates_too():
    assert holds_candidates(history(1, 2, -1), statuses(v1=PROMOTED, v2=TRIAL))
