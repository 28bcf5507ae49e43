"""Processor time is charged to the innermost part, and judgement to none."""

from __future__ import annotations

import pytest

from laboratory.clock import NOT_COUNTED, InlineExecutor, ProcessorClock


class Hand:
    """Clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_time_is_charged_to_the_innermost_part():
    hand = Hand()
    clock = ProcessorClock(hand)
    hand.now_s += 1
    with clock.part("intake"):
        hand.now_s += 2
        with clock.part("search"):
            hand.now_s += 4
        hand.now_s += 8
    hand.now_s += 16
    parts = clock.parts()
    assert (parts["self_play"], parts["intake"], parts["search"]) == (17, 10, 4)
    assert clock.used_s == 31


def test_time_that_is_not_counted_is_in_no_part():
    hand = Hand()
    clock = ProcessorClock(hand)
    with clock.part(NOT_COUNTED):
        hand.now_s += 5
    assert clock.used_s == 0
    hand.now_s += 3
    clock.restart()
    assert (clock.used_s, clock.before_s) == (0, 8)


def test_work_of_the_executor_runs_at_once_and_its_time_is_charged():
    hand = Hand()
    clock = ProcessorClock(hand)

    def work(seconds: float) -> str:
        hand.now_s += seconds
        return "done"

    assert InlineExecutor(clock, "learning").submit(work, 3).result(timeout=0) == "done"
    assert clock.parts()["learning"] == 3


def test_an_error_of_work_is_the_result_of_its_future():
    future = InlineExecutor(ProcessorClock(Hand()), "search").submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        future.result(timeout=0)
