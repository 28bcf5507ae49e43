"""`python -m trainer.readers DESCRIPTOR PARENT`: a process for reading, started by the trainer."""

from __future__ import annotations

import signal
import sys
from multiprocessing.connection import Connection

from zerofleet.service.process_end import end_process, end_with


def main() -> int:
    """Read until the connection ends; return the exit code."""
    descriptor, parent = map(int, sys.argv[1:])
    for ending in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a trainer that drains still needs this process; its end is the connection's
        signal.signal(ending, signal.SIG_IGN)
    if not end_with(parent, signal.SIGKILL):
        return 1
    from trainer.readers.process import read_until_closed  # noqa: PLC0415 - only now: its imports take a second

    with Connection(descriptor) as connection:
        read_until_closed(connection)
    return 0


if __name__ == "__main__":
    end_process(main())
