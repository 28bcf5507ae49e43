"""Claims about equal time are decided only where agents had their time."""

from __future__ import annotations

from typing import Any

import pytest

from zerofleet.strength.claims.clocks import time_fault
from zerofleet.strength.claims.tallies import Tally


def meeting(subject: str, opponent: str = "random", **times: Any) -> Tally:
    return Tally(meeting="m", subject=subject, opponent=opponent, seat=1, seed=0, trained=True, scores={"1": 1}, **times)


@pytest.mark.parametrize(
    ("subject", "times", "said"),
    [
        ("uct:4ms,model=1", {"subject_ms": 4.9, "subject_cpu_ms": 4.0}, ""),
        ("uct:4ms,model=1", {"subject_ms": 5.1, "subject_cpu_ms": 4.0}, "had 4.0 ms of processor time in 5.1 ms a move"),
        ("uct:2s", {"subject_ms": 5_000.0, "subject_cpu_ms": 2_000.0}, "had 2000.0 ms of processor time in 5000.0 ms a move"),
        ("uct:4ms", {"subject_ms": 15.0}, ""),  # an older result, without processor time
        ("uct:4cpu_ms", {"subject_ms": 90.0, "subject_cpu_ms": 4.1}, ""),
        ("uct:4cpu_ms", {"subject_ms": 90.0, "subject_cpu_ms": 5.2}, "spent 5.2 ms of processor time a move"),
        ("alpha_beta:230cpu_ms,model=1", {"subject_ms": 170.0, "subject_cpu_ms": 165.0}, ""),  # it ends with a proven win
        ("uct:400,model=1", {"subject_ms": 90.0, "subject_cpu_ms": 4.0}, ""),  # not limited by time
        ("alpha_beta:5", {"subject_ms": 90.0, "subject_cpu_ms": 4.0}, ""),
    ],
)
def test_a_time_is_a_fault_if_other_programs_had_the_machine_or_the_budget_was_exceeded(subject, times, said):
    found = time_fault([meeting(subject, **times)])
    assert (said in found) if said else not found


def test_both_sides_of_every_tally_are_looked_at():
    fair = meeting("uct:4ms", subject_ms=4.0, subject_cpu_ms=4.0)
    other = meeting("alpha_beta:3", "alpha_beta:230ms", opponent_ms=300.0, opponent_cpu_ms=200.0)
    assert not time_fault([fair, fair])
    assert time_fault([fair, other]).startswith("alpha_beta:230ms had 200.0 ms")
