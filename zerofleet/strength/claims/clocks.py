"""Whether agents limited by time had the time of their budgets: a loaded machine decides no claim about equal time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zerofleet.strength.claims.tallies import Tally

__all__ = ["time_fault"]

MOST_RATIO = 1.25
"""Largest ratio of the time of a move to its budget, and of its wall-clock time to its processor time."""
_BUDGET = re.compile(r"\w+:(\d+)(cpu_ms|ms|s)\b")


def time_fault(tallies: Iterable[Tally]) -> str:
    """Return the first fault in the times of agents with a budget of time; empty without one.

    A budget of wall-clock time (`50ms`, `2s`) is kept if it is processor time but for a quarter: else other programs had the
    machine. One of processor time (`50cpu_ms`) is kept if a move costs at most a quarter more. Results of earlier versions have
    no processor times and no fault.
    """
    for tally in tallies:
        sides = (
            (tally.subject, tally.subject_ms, tally.subject_cpu_ms),
            (tally.opponent, tally.opponent_ms, tally.opponent_cpu_ms),
        )
        for agent, wall_ms, cpu_ms in sides:
            found = _BUDGET.match(agent)
            if found is None or not cpu_ms:
                continue
            if found[2] != "cpu_ms" and wall_ms > MOST_RATIO * cpu_ms:
                return f"{agent} had {cpu_ms:.1f} ms of processor time in {wall_ms:.1f} ms a move: the machine was loaded"
            if found[2] == "cpu_ms" and cpu_ms > MOST_RATIO * int(found[1]):
                return f"{agent} spent {cpu_ms:.1f} ms of processor time a move, more than its budget"
    return ""
