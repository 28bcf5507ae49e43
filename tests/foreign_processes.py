"""Processes that are not children of the tests."""

from __future__ import annotations

import os
import select

__all__ = ["ended"]


def ended(*pids: int, timeout_s: float) -> bool:
    """Return whether processes end, which need not be children of this one; each within `timeout_s`."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([descriptor], [], [], timeout_s)[0]:
                return False
        finally:
            os.close(descriptor)
    return True
