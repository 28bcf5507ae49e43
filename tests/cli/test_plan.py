from __future__ import annotations

import pytest


def test_the_plan_names_the_part_that_saturates_first(zerofleet):
    found = zerofleet("plan", "--gpus", "2", "--workers", "4", "--json").json()
    assert found["saturates_first"] == "inference servers"
    assert found["games_per_hour"] > 0
    assert found["simulated"] is None
    assert "connect_four" in found["game"]


def test_the_simulation_is_printed_with_the_plan(zerofleet):
    found = zerofleet("plan", "--gpus", "2", "--workers", "8", "--simulate", "--seconds", "5", "--json").json()
    assert found["simulated"]["evaluations_per_second"] == pytest.approx(found["evaluations_per_second"], rel=0.1)


def test_a_simulation_in_which_no_request_of_the_match_was_answered_has_no_times_of_it(zerofleet):
    words = ("plan", "--gpus", "1", "--workers", "1", "--simulate", "--seconds", "1")
    found = zerofleet(*words, "--json").json()
    assert (found["simulated"]["gate_step_ms"] is None) == (found["simulated"]["gate_match_s"] is None)
    assert zerofleet(*words).code == 0


def test_the_plan_is_printed_as_tables(zerofleet):
    shown = zerofleet("plan", "--simulate", "--seconds", "2").out
    assert "saturates first" in shown
    assert "most games in the stream" in shown
