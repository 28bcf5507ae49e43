"""Slices of a soak: what a slice leaves on disk, what the next one goes on with, and their sum."""

import pytest
from soak_faults import Harm
from soak_logs import Line
from soak_memory import Sample
from soak_report import Findings
from soak_slices import Run, begin_slice, load_run, load_slices, save_run, save_slice, total


def findings(**changes):
    found = Findings(
        seed=1, workers=2, minutes=5.0, published=100, stored=99, lost=1, champion=3, not_made={"reorder": "no netem"}
    )
    found.samples = [Sample("trainer", "a", 10.0, 5.0, 100.0)]
    found.harms = [Harm("pause", "redis", 60.0, 70.0, {"container": "redis-1"}, 4.0), Harm("kill", "trainer", 90.0)]
    found.loud = [Line("trainer", 61.0, "text")]
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_slice_is_read_back_as_it_was_written(tmp_path):
    number = begin_slice(tmp_path)
    save_slice(tmp_path, number, findings())
    assert load_slices(tmp_path) == ([findings()], 0)


def test_a_killed_slice_loses_its_own_findings_alone_and_its_number_is_not_given_again(tmp_path):
    save_slice(tmp_path, begin_slice(tmp_path), findings())
    assert begin_slice(tmp_path) == 2  # ends here
    save_slice(tmp_path, begin_slice(tmp_path), findings(published=7))
    found, unfinished = load_slices(tmp_path)
    assert [each.published for each in found] == [100, 7]
    assert unfinished == 1
    assert begin_slice(tmp_path) == 4


def test_the_sum_adds_counts_and_continues_time():
    found = total([findings(), findings(champion=9, minutes=2.0)], unfinished=1)
    assert (found.minutes, found.slices, found.unfinished) == (7.0, 2, 1)
    assert (found.published, found.stored, found.lost, found.twice, found.unasked) == (200, 198, 2, 0, 0)
    assert found.champion == 9
    assert [harm.at_s for harm in found.harms] == [60.0, 90.0, 360.0, 390.0]
    assert [harm.until_s for harm in found.harms[::2]] == [70.0, 370.0]
    assert [line.at_s for line in found.loud] == [61.0, 361.0]
    assert [sample.at_s for sample in found.samples] == [10.0, 310.0]
    assert found.samples[1].age_s == 5.0
    assert found.not_made == {"reorder": "no netem"}


def test_containers_started_again_are_counted_within_each_slice_alone():
    lives = [("a-1", "10:00"), ("a-1", "10:00"), ("a-1", "10:02"), ("b-1", "10:00")]
    first = findings(samples=[Sample("trainer", f"{name} {start}", 10.0, 5.0, 100.0) for name, start in lives])
    second = findings(samples=[Sample("trainer", f"{name} 11:00", 10.0, 5.0, 100.0) for name in ("a-1", "b-1")])
    assert first.restarts() == 1
    assert total([first, second]).restarts() == 1


def test_the_sum_leaves_the_slices_as_they_are():
    slices = [findings(), findings()]
    total(slices)
    assert slices == [findings(), findings()]


def test_games_may_be_lost_to_damaged_bytes_alone():
    assert findings().broken_rules() == ["1 games lost, at most 0 may be"]
    byte = Harm("byte", "trainer", 1.0, 2.0, {"file": "games", "outcome": "started"})
    assert not findings(harms=[byte]).broken_rules()
    assert findings(harms=[byte], twice=1).broken_rules() == ["1 games stored twice, at most 0 may be"]


def test_a_run_goes_on_with_its_own_volumes_seed_and_counts(tmp_path):
    run = load_run(tmp_path / "soak", Run("project-a", 1, 2))
    run.counted_games = 500
    save_run(tmp_path / "soak", run)
    assert load_run(tmp_path / "soak", Run("project-b", 1, 2)) == Run("project-a", 1, 2, 500)
    with pytest.raises(ValueError, match="seed 1 and 2 workers, not 3 and 2"):
        load_run(tmp_path / "soak", Run("project-b", 3, 2))
