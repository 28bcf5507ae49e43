"""Limit of open files of a process: the soft limit is raised at its start, as 1,024 are few for a game log or a busy port.

The common soft limit protects programs that use `select`, which this project does not. Child processes inherit the limit.
"""

from __future__ import annotations

import resource
from contextlib import suppress

__all__ = ["raise_limit"]

_MOST = 1 << 20  # the kernel's default of fs.nr_open; some programs walk over all numbers below the limit when they start


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one, to about a million at most; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # fs.nr_open was lowered below the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
