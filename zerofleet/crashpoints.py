"""Named places where a test may kill the process, between two effects that a crash can part.

A process started with `ZEROFLEET_TEST_CRASH_AT=after_write_before_ack` kills itself with SIGKILL when it first passes
`crash_point("after_write_before_ack")`; `after_write_before_ack:3` waits for the third pass. Without the variable a
crash point costs one dictionary look-up. SIGKILL runs no handler, no `finally` and no flush: what survives is what
was durable.
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
    armed, wanted_pass = _armed()
    if armed == name and next(_passes[name]) == wanted_pass:
        os.kill(os.getpid(), signal.SIGKILL)


@functools.cache
def _armed() -> tuple[str, int]:
    """Return the name and pass at which to die; an empty name when the variable is not set."""
    name, _, count = os.environ.get(VARIABLE, "").partition(":")
    return name, int(count or 1)
