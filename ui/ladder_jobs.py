"""Play of missing ladder games in the background: one run at a time, in a process of its own, which can be cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime

import structlog
from pydantic import ValidationError

from ui.catalogue import OpenRun
from ui.climbing import Step
from ui.compiling import CompilingNow
from ui.endpoints import StrictValue
from ui.faults import shown_fault
from zerofleet.errors import InvalidRequest, Overloaded
from zerofleet.supervisor.termination import terminate

__all__ = ["PROGRAM", "LadderJob", "LadderJobs"]

PROGRAM = (sys.executable, "-m", "ui.climbing")
STOP_TIMEOUT_S = 30.0  # longer than the inference server that the process stops
LINES_SHOWN = 8

log = structlog.get_logger()


class LadderJob(StrictValue):
    """Missing games that are being played, or the last ones that were."""

    run: str
    games: int
    """Games per pair of players."""
    every: int
    """Distance of the champions that are rated."""
    began_at: datetime
    missing: int
    """Games to play, counted at the start; 0 while the process begins."""
    played: int
    at: str
    """Player whose games are being played, such as `model:7`."""
    is_done: bool
    is_cancelled: bool
    fault: str
    """Error that ended the games; empty for none."""
    compiling: CompilingNow | None = None
    """Compilation in the process of the games; None where it reported none."""


class LadderJobs:
    """The job of an application. Used in one event loop."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._job: LadderJob | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    @property
    def is_busy(self) -> bool:
        """Whether games are being played."""
        return self._task is not None and not self._task.done()

    def of(self, run: str) -> LadderJob | None:
        """Return the job of a run, in progress or ended; None where the last job was of another run, or there was none."""
        return self._job if self._job is not None and self._job.run == run else None

    def begin(self, run: OpenRun, *, games: int, every: int, most: int) -> LadderJob:
        """Begin to play the missing games of a run, or none of them if they are more than `most`.

        Raises `Overloaded` while others are played.
        """
        if self.is_busy and self._job is not None:
            raise Overloaded(f"the missing games of {self._job.run} are being played; wait until they end, or cancel them")
        self._job = LadderJob(
            run=run.name,
            games=games,
            every=every,
            began_at=datetime.now(UTC),
            missing=0,
            played=0,
            at="",
            is_done=False,
            is_cancelled=False,
            fault="",
        )
        words = ["--run-dir", str(run.paths.root.absolute())]
        words += ["--games", str(games), "--every", str(every), "--most", str(most)]
        self._task = asyncio.create_task(self._play(words))
        return self._job

    async def cancel(self, run: str) -> LadderJob:
        """End the job of a run, and return it once its process has ended; finished games are kept.

        Raises `InvalidRequest` where none is in progress. Cancellation: the job ends nevertheless.
        """
        if self.of(run) is None or not self.is_busy:
            raise InvalidRequest(f"no missing games of {run} are being played")
        await self.aclose()
        assert self._job is not None  # noqa: S101 - that of the run
        return self._job

    async def follow(self, run: str) -> AsyncGenerator[LadderJob]:
        """Yield the job of a run whenever it changes, the last time when it has ended. Cancellation: the job goes on."""
        seen: LadderJob | None = None
        while (now := self.of(run)) is not None:
            if now is not seen:
                seen = now
                yield now
            if now.is_done:
                return
            await self._until_changed(seen)

    async def aclose(self) -> None:
        """End the job in progress, if there is one. Cancellation: the job ends nevertheless."""
        if self._task is None or self._task.done():
            return
        if not self._task.cancelling():  # a second cancellation would end the wait for the process that is ending
            self._task.cancel()
        await asyncio.wait({self._task})
        if self._job is not None and not self._job.is_done:  # cancelled before its first step
            await self._update(is_done=True, is_cancelled=True)

    async def _play(self, words: Sequence[str]) -> None:
        """Run the process to its end. Cancellation: it is stopped, and the job is marked as cancelled."""
        try:
            fault = await self._run(words)
        except OSError as error:
            fault = f"the games could not be started: {error}"
        except Exception as error:
            fault = f"the games ended early: {shown_fault(error)}"
            log.exception("ladder.failed")
        except asyncio.CancelledError:
            await self._update(is_done=True, is_cancelled=True)
            raise
        await self._update(is_done=True, **({"fault": fault} if fault else {}))

    async def _run(self, words: Sequence[str]) -> str:
        """Run the process to its end; return the fault that it did not report, empty for none. Cancellation: it is stopped."""
        process = await asyncio.create_subprocess_exec(
            *self._program,
            *words,
            *("--parent-pid", str(os.getpid())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C at the terminal reaches only the application, which ends it in order
        )
        errors: deque[str] = deque(maxlen=LINES_SHOWN)
        try:
            async with asyncio.TaskGroup() as readers:
                readers.create_task(self._read_steps(process.stdout))
                readers.create_task(_keep_lines(process.stderr, errors))
            code = await process.wait()
        finally:
            await terminate(process, timeout_s=STOP_TIMEOUT_S)
        if not code or (self._job is not None and self._job.fault):
            return ""
        log.error("ladder.failed", code=code, lines="\n".join(errors))
        return f"the games ended with exit code {code}; the log of zerofleet ui has the reason"

    async def _until_changed(self, seen: LadderJob) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._job is not seen)

    async def _read_steps(self, lines: asyncio.StreamReader | None) -> None:
        async for line in _each(lines):
            with contextlib.suppress(ValidationError):  # a library that prints is not a step
                step = Step.model_validate_json(line)
                found = {name: value for name, value in step if value}
                await self._update(**found)

    async def _update(self, **changes: object) -> None:
        if self._job is not None:
            self._job = self._job.model_copy(update=changes)
        async with self._changed:
            self._changed.notify_all()


async def _each(lines: asyncio.StreamReader | None) -> AsyncGenerator[bytes]:
    while lines is not None:
        try:
            line = await lines.readline()
        except ValueError:  # longer than the buffer, as of a library that prints: left out
            continue
        if not line:
            return
        yield line


async def _keep_lines(lines: asyncio.StreamReader | None, kept: deque[str]) -> None:
    async for line in _each(lines):
        kept.append(line.decode(errors="replace").rstrip())
