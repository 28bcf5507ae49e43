"""Processes of a benchmark, which run for a time and return their figures: the server's bare loop, and workers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from zerofleet.errors import Unavailable
from zerofleet.rpc.security.credentials import without_credentials

__all__ = ["SHOWN_LINES", "BenchProcess", "started"]

SHOWN_LINES = 5
"""Lines of a log in the message about a process that exited."""
_LINE_BYTES = 1 << 20  # a worker's sample of latencies is one line


class BenchProcess:
    """Process that reads a duration per line, runs for it, and writes its figures as a line of JSON."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._about = psutil.Process(process.pid)

    async def run_for(self, seconds: float) -> dict[str, Any]:
        """Let the process run for `seconds` and return its figures.

        Raises `Unavailable` with the last lines of its log if it exits. Cancellation: the process runs on.
        """
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(f"{seconds}\n".encode())
        line = await self._process.stdout.readline()
        if not line:
            raise await self._ended()
        figures: dict[str, Any] = json.loads(line)
        return figures

    async def outlives(self, work: Awaitable[Any]) -> None:
        """Wait for `work`; raises `Unavailable` if the process exits first."""
        done, ended = asyncio.ensure_future(work), asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({done, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise await self._ended()
            done.result()
        finally:
            done.cancel()
            ended.cancel()

    async def _ended(self) -> Unavailable:
        code = await self._process.wait()
        last = self._log.read_text(errors="replace").strip().splitlines()[-SHOWN_LINES:]
        return Unavailable(f"a process of the benchmark exited with code {code}: {' / '.join(last)}")

    def cpu_s(self) -> float:
        """Return the CPU time used so far."""
        times = self._about.cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def started(log: Path, *command: str, threads: int, python: str = sys.executable) -> AsyncIterator[BenchProcess]:
    """Start a module as a process of an interpreter, by default this one; terminate it on exit."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=out,
            limit=_LINE_BYTES,
            env={**without_credentials(os.environ), **limits},
        )
    try:
        yield BenchProcess(process, log)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()  # not `communicate`: a cancelled measurement may still read the pipe
