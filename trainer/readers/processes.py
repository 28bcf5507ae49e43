"""Reader in processes of its own.

The interpreter of a trainer runs one thread at a time. A learner on a GPU hands over hundreds of short calls a step, and after
each of them it may wait 5 ms for a thread that reads games: beside 1,000 games a second a step took five times as long
(docs/results/speed_training.md). Entries are divided among the processes, and the calling thread sleeps meanwhile.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from games.core import GameSpec
from games.errors import RuleFault
from trainer.readers.base import Entry, ReadGame
from trainer.readers.messages import Answers, ReaderSettings, receive_answers, send_entries
from zerofleet.errors import ReaderFailed, RecordRejected, Unavailable
from zerofleet.rpc.security.credentials import without_credentials

__all__ = ["MOST_FAILURES", "ReaderProcesses"]

END_S = 5.0
"""Time for all processes to end without their connections, before they are killed."""
MOST_FAILURES = 3
"""Exchanges that fail in a row, by the loss of a process, after which the reader gives up."""


class _Process:
    """A process and the connection to it."""

    def __init__(self, settings: ReaderSettings) -> None:
        """Raises `OSError` when it cannot be started."""
        own, theirs = socket.socketpair()
        with theirs, own:
            self.process = subprocess.Popen(
                (sys.executable, "-m", "trainer.readers", str(theirs.fileno()), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=without_credentials(os.environ),
                start_new_session=True,  # a signal to the trainer's group is for the trainer, which still needs it to drain
            )
            self.connection = Connection(own.detach())
        with suppress(OSError):  # it is gone already: the next exchange finds out
            settings.send(self.connection)

    def interrupt(self) -> None:
        """End the conversation: the process sees its end, and so does a thread that waits for an answer."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def close(self, deadline_s: float) -> int:
        """End the process by a time of `time.monotonic`, and return its exit code."""
        self.interrupt()
        try:
            code = self.process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.connection.close()
        return code


class ReaderProcesses:
    """See `Reader`. One thread reads; another may close meanwhile. The processes start at once, and again when one is lost."""

    def __init__(self, settings: ReaderSettings, count: int, *, spec: GameSpec) -> None:
        """`count`: number of processes, at least 1. `spec`: of the run's game. Raises `OSError` when one cannot be started."""
        self._settings = settings
        self._count = count
        self._spec = spec
        self._failures = 0
        self._processes: list[_Process] = []
        self._turn = threading.Lock()  # of the thread that uses the connections
        self._closed = False
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.process.pid for process in self._processes]

    def read(self, entries: Sequence[Entry]) -> list[ReadGame | RecordRejected]:
        """See `Reader`. Raises `ReaderFailed` for a fault of the reader, and after `MOST_FAILURES` lost exchanges in a row."""
        with self._turn:
            replies = self._exchanged(entries)
        for reply in replies:
            if reply.fault:
                raise RuleFault(reply.fault)
            if reply.error:
                raise ReaderFailed(f"reading games failed:\n{reply.error}")
        return [game for reply in replies for game in reply.games]

    def close(self) -> None:
        """See `Reader`. A thread that reads meanwhile gets `Unavailable`."""
        self._closed = True
        for process in tuple(self._processes):
            process.interrupt()
        with self._turn:
            self._end()

    def _start(self) -> None:
        while len(self._processes) < self._count:
            self._processes.append(_Process(self._settings))

    def _exchanged(self, entries: Sequence[Entry]) -> list[Answers]:
        """Send a portion to each process and return the replies. Raises `Unavailable` when one is lost: read them again."""
        if self._closed:
            raise Unavailable("the reader of records is closed")
        size = max(1, -(-len(entries) // self._count))
        portions = [entries[begin : begin + size] for begin in range(0, len(entries), size)]
        try:
            self._start()
            working = self._processes[: len(portions)]
            for process, portion in zip(working, portions, strict=True):
                send_entries(process.connection, portion)
            replies = [receive_answers(process.connection, self._spec) for process in working]
        except (EOFError, OSError, ValueError) as error:
            raise self._failed(error) from error
        self._failures = 0
        return replies

    def _failed(self, error: Exception) -> Exception:
        """End all processes, as other answers may be under way; return the error to raise."""
        text = f"a process that reads games was lost: exit codes {self._end()} ({type(error).__name__}: {error})"
        if self._closed:
            return Unavailable("the reader of records was closed")
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            return ReaderFailed(f"{text}, {self._failures} times in a row")
        return Unavailable(f"{text}; others are started")

    def _end(self) -> list[int]:
        """End all processes and return their exit codes."""
        deadline_s = time.monotonic() + END_S
        for process in self._processes:
            process.interrupt()
        codes = [process.close(deadline_s) for process in self._processes]
        self._processes.clear()
        return codes
