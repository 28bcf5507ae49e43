"""Priority of a process among the others of its machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

__all__ = ["lower_priority"]

_LOWEST = 19
_TRIES = 20
_PAUSE_S = 0.1


async def lower_priority(pid: int, niceness: int) -> None:
    """Raise the niceness of a new process, which leads its session, by `niceness` above that of this process.

    Threads and processes that it starts afterwards inherit it. Linux may schedule each session as a group ("autogroup",
    sched(7)); the niceness of a process then counts within its session only, and that of the group, which is set too,
    counts between sessions. With a `niceness` of 0 the group gets that of this process: services of a run that has a
    niceness itself keep their distances. Does nothing if the process has ended. Cancellation: the group may keep its niceness.
    """
    wanted = min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, _LOWEST)
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, wanted)
    for _ in range(_TRIES if wanted else 0):  # a new group has 0
        if _is_group_settled(pid, wanted):
            return
        await asyncio.sleep(_PAUSE_S)


def _is_group_settled(pid: int, niceness: int) -> bool:
    """Set the niceness of a session's group; return False if the kernel asks for another try."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(f"{niceness}\n")
    except BlockingIOError:  # a user without privileges may change one group in 0.1 s
        return False
    except OSError:  # a kernel without such groups, or the process has ended
        pass
    return True
