"""`python -m inference_server.fronts DESCRIPTOR PARENT`: a front end, started by the device process."""

from __future__ import annotations

import asyncio
import socket
import sys

from zerofleet.service.process_end import end_process, end_with


def main() -> int:
    """Run a front end; return its exit code."""
    descriptor, parent = map(int, sys.argv[1:])
    if not end_with(parent):  # SIGTERM at the parent's end, until the loop watches the connection
        return 1
    from inference_server.fronts.process import run_front_end  # noqa: PLC0415 - only now: its imports take a second
    from zerofleet.telemetry import tracing  # noqa: PLC0415

    asyncio.run(run_front_end(socket.socket(fileno=descriptor)))
    tracing.close()
    return 0


if __name__ == "__main__":
    end_process(main())
