"""Identity of a process beyond its id, which another process may have: in another container, or at another time.

An announce file states it, and its own place, which distinguishes the file from a copy.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["announce_place", "pid_namespace", "start_ticks"]

_AFTER_NAME = 19  # place of `starttime` behind the name of the program, proc(5)


def announce_place(path: Path) -> str:
    """Return the absolute path without links of an announce file; invalid UTF-8 in it is escaped. Raises `OSError`."""
    return os.fsencode(path.resolve()).decode(errors="backslashreplace")


def pid_namespace() -> str:
    """Return the name of this process's namespace, such as `pid:[4026531836]`; empty where the system has none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; None for no process, or a system without /proc.

    The kernel counts them, and no step of the clock changes the count.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[_AFTER_NAME])
