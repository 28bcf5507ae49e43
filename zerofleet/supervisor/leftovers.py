"""Services of an earlier supervisor of the same run that have not ended yet.

A supervisor that is killed takes its children with it, but they drain first. Two servers on one socket, or two trainers
in one store, must not meet: the next supervisor waits for those that are left, and kills what does not end.
"""

from __future__ import annotations

import contextlib
import json

import psutil

from zerofleet.storage.run_paths import RunPaths

__all__ = ["end_leftovers"]

GRACE_S = 20.0
"""Above the grace time of the services themselves."""


def end_leftovers(paths: RunPaths) -> list[int]:
    """End the processes that announce files of the run name and that are still its services; return their ids."""
    found = []
    for announce in sorted(paths.services.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, psutil.Error):
            process = psutil.Process(int(json.loads(announce.read_bytes())["pid"]))
            if str(announce.absolute()) in process.cmdline():  # and not somebody who has the number by chance
                process.terminate()
                found.append(process)
    _, alive = psutil.wait_procs(found, timeout=GRACE_S)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE_S)
    return [process.pid for process in found]
