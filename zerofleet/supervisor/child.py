"""Supervised service process: started, watched, restarted and drained.

A child that dies is restarted after a pause that doubles with each quick death. A child that refuses to start, or keeps
dying, is given up with the end of its log. Every child ends with its supervisor: the kernel sends it SIGTERM when its parent
dies (`parent_pid`). It has its own session, so that Ctrl-C in the terminal reaches only the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from zerofleet.errors import ZerofleetError
from zerofleet.rpc.backoff import Backoff
from zerofleet.service.compilation_note import Compilation, note_path, read_note
from zerofleet.service.lifecycle import EXIT_REFUSED
from zerofleet.storage import crash_points
from zerofleet.supervisor.priority import lower_priority

__all__ = ["Child", "ChildPlan", "ChildState", "GaveUp", "log_tail"]

FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
QUICK_DEATH_S = 10.0
"""Minimum time from readiness to a death that does not count as quick."""
MAX_QUICK_DEATHS = 5
KILL_AFTER_GRACE_S = 5.0
MAX_LOG_BYTES = 32 << 20
TAIL_LINES = 12
_TAIL_BYTES = 64 << 10


class GaveUp(ZerofleetError):
    """Run that cannot go on. For a service that cannot be kept running the text has its exit status and the end of its log."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        """`is_final`: whether the same command would fail again, as where a service refused to start."""
        super().__init__(text)
        self.is_final = is_final


class ChildState(StrEnum):
    """State of a child."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    DRAINING = "draining"
    ENDED = "ended"
    SILENT = "does not answer"
    """State of a process that is ready and stopped answering; only in readings, as the observer finds it."""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """Start parameters of a child."""

    name: str
    """Name of the child: `trainer`, `worker-0`."""
    kind: str
    """Service: `trainer`, `selfplay_worker`. Children of one kind drain together."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    announce: Path
    log: Path
    grace_s: float
    is_needed: bool = True
    """Whether the run ends when this child is given up."""
    niceness: int = 0
    """Niceness above that of the supervisor, 0 to 19: others of the machine go before it."""


class Child:
    """Service process and its restarts."""

    def __init__(self, plan: ChildPlan, say: Callable[[str], None]) -> None:
        """Create it; `say` reports events to the user."""
        self.plan = plan
        self.state = ChildState.STARTING
        self.restarts = 0
        self.metrics_port = 0
        """Port of /metrics; 0 while the child is not ready."""
        self.address = ""
        """Address at which the child serves; empty before it was ready."""
        self.was_ready = False
        """Whether the child was ever ready."""
        self.compiling: Compilation | None = None
        """Compilation in progress; None without one."""
        self.since_s = time.monotonic()
        """Start of the current process, on the monotonic clock."""
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._ending = asyncio.Event()
        self._ended = asyncio.Event()
        self._log_begins = 0
        """Position in the log at which the present process began."""
        self._ready_at_s: float | None = None
        self._quick_deaths = 0
        self._backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=None)

    @property
    def name(self) -> str:
        """Name of the child: `trainer`, `worker-0`."""
        return self.plan.name

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    async def supervise(self) -> None:
        """Keep the child running until `drain`. Raises `GaveUp`. Cancellation: the child is killed."""
        try:
            while not self._ending.is_set():
                code: int | None = None
                try:
                    code = await self._run_once()
                    how = _how_it_ended(code)
                except OSError as error:  # too many files or processes, no memory: often temporary
                    how = f"could not be started: {error}"
                if self._ending.is_set():
                    break
                await self._pause(self._note_death(how, refused=code == EXIT_REFUSED and not self.was_ready))
        finally:
            if self.pid is not None and self._process is not None:
                self._process.kill()
                await self._process.wait()
            self.state, self.metrics_port = ChildState.ENDED, 0
            self._ended.set()

    async def drain(self) -> None:
        """Terminate the child, and kill it after its grace time.

        Cancellation: the child was signalled; it ends by itself or with the supervisor.
        """
        self._ending.set()
        self.state = ChildState.DRAINING
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.plan.grace_s + KILL_AFTER_GRACE_S):
                await self._ended.wait()
        except TimeoutError:
            self._say(f"{self.plan.name} did not stop within {self.plan.grace_s:g} s and was killed")
            self._send(signal.SIGKILL)
            await self._ended.wait()

    def kill(self) -> None:
        """Kill the child."""
        self._ending.set()
        self._send(signal.SIGKILL)

    def look(self) -> None:
        """Read the note of a compilation, and the announce file, which a ready child has written; limit a log that grows."""
        if self.pid is not None and _limit_log(self.plan.log):
            self._log_begins = 0
        self.compiling = read_note(note_path(self.plan.announce), self.pid)
        if self.state is not ChildState.STARTING or self.pid is None:
            return
        try:
            says = json.loads(self.plan.announce.read_bytes())
            pid, port, address = says["pid"], int(says["metrics_port"]), str(says["address"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):  # absent, or not of a service
            return
        if pid == self.pid:
            self.metrics_port, self.address = port, address
            self._ready_at_s = time.monotonic()
            self.was_ready = True
            self.state = ChildState.READY

    async def _run_once(self) -> int:
        """Start the child and wait until it exits; return its exit code, negative for a signal."""
        self.state, self.since_s, self._ready_at_s, self.metrics_port = ChildState.STARTING, time.monotonic(), None, 0
        self.plan.announce.unlink(missing_ok=True)
        note_path(self.plan.announce).unlink(missing_ok=True)
        _limit_log(self.plan.log)
        environment = dict(self.plan.environment)
        if self.restarts:
            environment.pop(crash_points.VARIABLE, None)  # a test kills a service once, not at every start
        with self.plan.log.open("ab") as log:
            self._log_begins = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self.plan.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        await lower_priority(self._process.pid, self.plan.niceness)
        if self._ending.is_set():  # stopped while starting
            self._send(signal.SIGTERM)
        return await self._process.wait()

    def _note_death(self, how: str, *, refused: bool) -> float:
        """Report the end of the child; return the pause before its restart. Raises `GaveUp`, at once if it `refused`."""
        self.look()
        lived_s = time.monotonic() - (self._ready_at_s or time.monotonic())
        if lived_s >= QUICK_DEATH_S:
            self._quick_deaths = 0
            self._backoff.reset()
        self._quick_deaths += 1
        if refused or self._quick_deaths >= MAX_QUICK_DEATHS:
            often = "" if refused else f" {self._quick_deaths} times in a row"
            raise GaveUp(
                f"{self.plan.name} {how}{often}; the end of its log ({self.plan.log}):\n\n"
                + "\n".join(f"  {line}" for line in log_tail(self.plan.log)),
                is_final=refused,
            )
        pause_s = self._backoff.next_s()
        self._say(f"{self.plan.name} {how}{_reason(self.plan, self._log_begins)}; restarting in {pause_s:g} s")
        self.restarts += 1
        self.state, self.metrics_port = ChildState.RESTARTING, 0
        return pause_s

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            pass

    def _send(self, number: signal.Signals) -> None:
        if self.pid is not None and self._process is not None:
            self._process.send_signal(number)


def _reason(plan: ChildPlan, begin: int) -> str:
    """Return the reason that a service wrote to standard error at its end, behind a colon; empty for one that was killed."""
    try:
        with plan.log.open("rb") as file:
            file.seek(max(begin, plan.log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    _, found, reason = f"\n{text}".rpartition(f"\n{plan.kind}: ")
    return f": {reason.splitlines()[0]}" if found and reason.strip() else ""


def log_tail(path: Path, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log, with structlog events formatted as `event key=value`."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = deque(file.read().decode(errors="replace").splitlines(), maxlen=lines)
    except OSError:
        return ["(no log)"]
    return [_readable(line) for line in tail] or ["(empty log)"]


def _readable(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return line
    if not isinstance(event, dict) or "event" not in event:
        return line
    hidden = {"event", "level", "timestamp", "service"}
    fields = " ".join(f"{key}={value}" for key, value in event.items() if key not in hidden)
    return f"{event.get('level', '')}: {event['event']} {fields}".rstrip()


def _how_it_ended(code: int) -> str:
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"
    if code == EXIT_REFUSED:
        return "refused to start"
    return f"exited with code {code}"


def _limit_log(path: Path) -> bool:
    """Move the lines of a large log to an older file, of which one is kept; return whether it was large.

    A running service has the log open to append, so the file stays. Lines written during the move may be lost, and those for
    which the disk has no space.
    """
    try:
        if path.stat().st_size <= MAX_LOG_BYTES:
            return False
        with contextlib.suppress(OSError):
            shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)
    except OSError:  # absent, or the directory was removed
        return False
    return True
