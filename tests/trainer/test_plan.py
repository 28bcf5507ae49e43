"""The plan of a run: the share of its time that has passed."""

from __future__ import annotations

import pytest

from trainer.plan import Plan


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, now_s):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


def plan(earlier_s, end_s, clock, wall_s=1_000_000.0):
    return Plan(earlier_s, end_s, clock=clock, wall_clock=lambda: wall_s)


def test_the_share_grows_with_the_time_of_the_session_up_to_one():
    clock = Clock(50.0)
    one = plan(0.0, 1_000_100.0, clock)
    shares = []
    for clock.now_s in (50.0, 75.0, 150.0, 500.0):
        shares.append(one.progress())
    assert shares == pytest.approx([0.0, 0.25, 1.0, 1.0])
    assert one.active_s == 450.0


def test_a_resumed_run_continues_at_its_share_of_the_longer_whole():
    clock = Clock(0.0)
    again = plan(100.0, 1_000_300.0, clock)
    assert again.progress() == pytest.approx(100 / 400)
    clock.now_s = 150.0
    assert again.progress() == pytest.approx(250 / 400)


def test_a_restarted_process_keeps_the_planned_end():
    clock = Clock(0.0)
    first = plan(0.0, 1_000_100.0, clock)
    clock.now_s = 40.0
    second = plan(first.active_s, 1_000_100.0, clock, wall_s=1_000_040.0)
    assert second.progress() == pytest.approx(first.progress())


def test_without_a_planned_end_there_is_no_share():
    assert plan(70.0, 0.0, Clock(0.0)).progress() is None


def test_a_planned_end_in_the_past_has_passed():
    assert plan(0.0, 5.0, Clock(0.0)).progress() == 1.0
