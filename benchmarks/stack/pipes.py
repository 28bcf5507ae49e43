"""Lines between the driver of the stack and its processes: a line in, a reading out."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

from benchmarks.stack.figures import Reading

__all__ = ["answer_lines", "now_reading", "read_reading", "write_line"]


def write_line(text: str) -> None:
    """Write a line to the driver."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def now_reading(positions: int = 0, simulations: int = 0, games: int = 0) -> Reading:
    """Return the totals of this process now."""
    return Reading(time.monotonic(), time.process_time(), positions, simulations, games)


def read_reading(line: str) -> Reading:
    """Return a reading from its line; raises `EOFError` for an empty one, of a process that ended."""
    if not line:
        raise EOFError("a process of the stack ended; its errors are above")
    return Reading(**json.loads(line))


async def answer_lines(read: Callable[[], Reading]) -> None:
    """Answer each line of standard input with a reading until it ends. Cancellation: no effect."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while await reader.readline():
            write_line(json.dumps(asdict(read())))
    finally:
        transport.close()
