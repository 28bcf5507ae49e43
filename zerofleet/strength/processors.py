"""Processors that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["usable_cores"]

OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def usable_cores(own_group: Path = OWN_GROUP, groups: Path = GROUPS) -> int:
    """Return the number of cores for this process: those of its affinity, within the limits of its container (cgroup v2).

    A limit of 1.5 cores counts as 2. Without control groups of version 2 only the affinity counts.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([affinity, *_limits(own_group, groups)])


def _limits(own_group: Path, groups: Path) -> list[int]:
    """Return the limits of the group of this process and of the groups around it, in whole cores."""
    try:
        lines = own_group.read_text().splitlines()
    except OSError:
        return []
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if own is None:
        return []
    group = groups / own.lstrip("/")
    found = []
    for folder in (group, *group.parents):
        if not folder.is_relative_to(groups):
            break
        try:
            quota, period = (folder / "cpu.max").read_text().split()
            found.append(max(1, math.ceil(int(quota) / int(period))))
        except (OSError, ValueError):  # no file at the root; "max" is no limit
            continue
    return found
