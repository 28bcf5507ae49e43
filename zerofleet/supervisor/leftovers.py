"""Services left by an earlier supervisor of the same run.

When a supervisor is killed, its children stop too, but they drain first. Two servers on one socket, or two trainers on one
store, must not coexist: the next supervisor waits for the remaining services, and kills those that do not stop.
"""

from __future__ import annotations

import contextlib

import psutil
from pydantic_core import from_json

from zerofleet.storage.run_paths import RunPaths

__all__ = ["end_leftovers"]

TIMEOUT_S = 20.0
"""Longer than the grace time of services without a setting."""


def end_leftovers(paths: RunPaths, *, timeout_s: float = TIMEOUT_S) -> list[int]:
    """Stop the processes named by the run's announce files that are still its services, and return their ids.

    Those that have not ended after `timeout_s` are killed.
    """
    found = []
    for announce in sorted(paths.services.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, psutil.Error):
            process = psutil.Process(int(from_json(announce.read_bytes())["pid"]))
            if str(announce.absolute()) in process.cmdline():  # not an unrelated process with a reused id
                process.terminate()
                found.append(process)
    _, alive = psutil.wait_procs(found, timeout=timeout_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=TIMEOUT_S)
    return [process.pid for process in found]
