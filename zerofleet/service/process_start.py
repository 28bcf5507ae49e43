"""Start of a process by the kernel's own count, which no step of the clock changes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["start_ticks"]

_AFTER_NAME = 19  # place of `starttime` behind the name of the program, proc(5)


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; None for no process, or a system without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[_AFTER_NAME])
