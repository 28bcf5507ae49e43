"""Priorities of evaluation requests, with the meaning of Triton's request parameter `priority`.

0 stands for the default level, 1 is the highest level, larger numbers are lower levels, and a number beyond the last level
means the default level. There are two levels: self-play, the default, needs throughput; matches, evaluations and people wait
for one answer after another, so they need a short latency.
"""

from __future__ import annotations

from enum import IntEnum

from zerofleet.errors import InvalidRequest

__all__ = ["MAX_PRIORITY", "PRIORITY_PARAMETER", "Priority", "level_of"]

PRIORITY_PARAMETER = "priority"
MAX_PRIORITY = 2**64 - 1  # the parameter is an unsigned 64-bit number


class Priority(IntEnum):
    """Priority of a client's requests."""

    DEFAULT = 0
    """Level of requests without the parameter: `LOW`."""
    HIGH = 1
    """Matches, the gate, the ladder, interactive play, analysis, accuracy."""
    LOW = 2
    """Self-play."""


def level_of(priority: int) -> Priority:
    """Return the level of a request's priority: `HIGH` or `LOW`. Raises `InvalidRequest` for a number that is no priority."""
    if not 0 <= priority <= MAX_PRIORITY:
        raise InvalidRequest(
            f"parameter {PRIORITY_PARAMETER} is {priority}, want 0 (the default level), 1 (the highest) or more"
        )
    return Priority.HIGH if priority == Priority.HIGH else Priority.LOW
