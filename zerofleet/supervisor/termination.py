"""End of a child process of asyncio: SIGTERM, and SIGKILL after a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import signal

__all__ = ["terminate"]


async def terminate(process: asyncio.subprocess.Process, *, timeout_s: float) -> None:
    """Terminate a child unless it has ended, kill it after a timeout, and wait for it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
