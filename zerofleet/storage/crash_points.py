"""Crash points: named places where a test may kill the process, between two effects that a crash can separate.

A process started with `ZEROFLEET_TEST_CRASH_AT=after_write_before_ack` kills itself with SIGKILL when it first passes
`crash_point("after_write_before_ack")`; `after_write_before_ack:3` waits for the third pass. Several names, separated by
commas, give each process of a fleet its own. Without the variable a crash point costs one dictionary look-up. SIGKILL
runs no handler, no `finally` and no flush: only durable state survives.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections import defaultdict
from collections.abc import Iterator

__all__ = ["VARIABLE", "crash_point"]

VARIABLE = "ZEROFLEET_TEST_CRASH_AT"

_passes: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))


def crash_point(name: str) -> None:
    """Kill this process here if the environment names this point; otherwise do nothing."""
    wanted_pass = _armed().get(name)
    if wanted_pass is not None and next(_passes[name]) == wanted_pass:
        os.kill(os.getpid(), signal.SIGKILL)


@functools.cache
def _armed() -> dict[str, int]:
    """Return the fatal pass of each armed point."""
    entries = (entry.partition(":") for entry in os.environ.get(VARIABLE, "").split(",") if entry)
    return {name: int(count or 1) for name, _, count in entries}
