"""Priorities of evaluation requests, with the meaning of Triton's request parameter `priority`.

0 stands for the default level, 1 is the highest level, larger numbers are lower levels, and a number beyond the last level
means the default level. There are two levels: self-play, the default, needs throughput; matches, evaluations and people wait
for one answer after another, so they need a short latency.

A server with a full queue refuses calls before it reads their message, which holds the parameter. A caller of high priority
therefore sends the header `PRIORITY_HEADER` as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from zerofleet.errors import InvalidRequest

__all__ = ["HIGH_PRIORITY_HEADER", "MAX_PRIORITY", "PRIORITY_HEADER", "PRIORITY_PARAMETER", "Priority", "announced", "level_of"]

PRIORITY_PARAMETER = "priority"
PRIORITY_HEADER: Final = "zerofleet-priority"
"""Metadata of a call over gRPC, or header over HTTP, that announces the priority of its message."""
MAX_PRIORITY = 2**64 - 1  # the parameter is an unsigned 64-bit number


class Priority(IntEnum):
    """Priority of a client's requests."""

    DEFAULT = 0
    """Level of requests without the parameter: `LOW`."""
    HIGH = 1
    """Matches, the gate, the ladder, interactive play, analysis, accuracy."""
    LOW = 2
    """Self-play."""


HIGH_PRIORITY_HEADER: Final = (PRIORITY_HEADER, str(int(Priority.HIGH)))
"""Name and value that announce a message of high priority."""


def announced(headers: Iterable[tuple[str, str | bytes]]) -> Priority:
    """Return the priority that headers announce: `HIGH` for exactly `HIGH_PRIORITY_HEADER`, `LOW` for all else.

    It decides whether a message is read while the queue is full; its parameter alone decides where it waits.
    """
    return Priority.HIGH if HIGH_PRIORITY_HEADER in headers else Priority.LOW


def level_of(priority: int) -> Priority:
    """Return the level of a request's priority: `HIGH` or `LOW`. Raises `InvalidRequest` for a number that is no priority."""
    if not 0 <= priority <= MAX_PRIORITY:
        raise InvalidRequest(
            f"parameter {PRIORITY_PARAMETER} is {priority}, want 0 (the default level), 1 (the highest) or more"
        )
    return Priority.HIGH if priority == Priority.HIGH else Priority.LOW
