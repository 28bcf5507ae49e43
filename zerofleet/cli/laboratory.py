"""Processes of the laboratory: a request as JSON on their input, a line of JSON on their output for each event."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from zerofleet.errors import Unavailable

__all__ = ["events", "run_until_terminated"]

LAST_LINES = 3
LINE_BYTES = 1 << 26  # a result is one line

Result = TypeVar("Result")


def run_until_terminated(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work to its end and return its result.

    SIGTERM cancels it, as Ctrl-C does, so that neither a process nor a file of it outlives the command; both raise
    `KeyboardInterrupt`.
    """

    async def run() -> Result:
        running = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        return await running

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@asynccontextmanager
async def events(name: str, *command: str, request: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Run a Python module and yield its events in order.

    Args:
        name: Name of the process in errors.
        command: Module and its arguments.
        request: Text for its standard input.

    Reading to the end raises `Unavailable` with its last lines on standard error if it exits with another code than 0.
    Cancellation, and an exit before the end, kill the process.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_BYTES
    )
    try:
        async with aclosing(_read(process, name, request)) as found:
            yield found
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read(process: asyncio.subprocess.Process, name: str, request: str) -> AsyncGenerator[dict[str, Any], None]:
    assert process.stdin is not None  # noqa: S101 - a pipe
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    process.stdin.write(request.encode())
    process.stdin.close()
    errors = asyncio.ensure_future(process.stderr.read())
    async for line in process.stdout:
        yield json.loads(line)
    last = (await errors).decode(errors="replace").strip().splitlines()[-LAST_LINES:]
    if code := await process.wait():
        raise Unavailable(f"{name} exited with code {code}: {' / '.join(last)}")
