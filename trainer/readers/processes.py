"""Reader in processes of its own.

The interpreter of a trainer runs one thread at a time. A learner on a GPU hands over hundreds of short calls a step, and after
each of them it may wait 5 ms for a thread that reads games: beside 1,000 games a second a step took five times as long
(docs/results/speed.md). Entries are divided among the processes, and the calling thread sleeps meanwhile.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from games.errors import RuleFault
from trainer.readers.base import Entry, ReadGame
from trainer.readers.messages import Answers, Orders
from zerofleet.errors import RecordRejected, Unavailable
from zerofleet.rpc.security.credentials import without_credentials

__all__ = ["MOST_LOSSES", "ReaderError", "ReaderProcesses"]

END_S = 5.0
"""Time for a process to end without its connection, before it is killed."""
MOST_LOSSES = 3
"""Processes that may be lost one after another, before the reader gives up."""


class ReaderError(RuntimeError):
    """A process for reading failed by a fault of its own, or is lost again and again."""


class _Process:
    """A process and the connection to it."""

    def __init__(self, orders: Orders) -> None:
        own, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "trainer.readers", str(theirs.fileno()), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=without_credentials(os.environ),
                start_new_session=True,  # a signal to the trainer's group is for the trainer, which still needs it to drain
            )
        self._connection = Connection(own.detach())
        with suppress(OSError):  # it is gone already: the next exchange finds out
            self.send(orders)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        """Raises `OSError` when the process is gone."""
        self._connection.send_bytes(pickle.dumps(message, 5))

    def receive(self) -> Answers:
        """Raises `EOFError` or `OSError` when the process is gone."""
        answers: Answers = pickle.loads(self._connection.recv_bytes())  # noqa: S301 - of a process that this one started
        return answers

    def close(self) -> int:
        """End the process and return its exit code."""
        self._connection.close()
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class ReaderProcesses:
    """See `Reader`; for one thread. The processes start at once, and one that is lost is started again."""

    def __init__(self, orders: Orders, count: int) -> None:
        """`count`: number of processes, at least 1."""
        self._orders = orders
        self._count = count
        self._losses = 0
        self._processes: list[_Process] = []
        self._start()

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.pid for process in self._processes]

    def read(self, entries: Sequence[Entry]) -> list[ReadGame | RecordRejected]:
        """See `Reader`. Raises `ReaderError` for a fault of the reader, and when `MOST_LOSSES` processes were lost in a row."""
        self._start()
        size = -(-len(entries) // self._count)
        portions = [entries[begin : begin + size] for begin in range(0, len(entries), size)] if entries else []
        replies = self._exchanged(portions)
        self._losses = 0
        for reply in replies:
            if reply.fault:
                raise RuleFault(reply.fault)
            if reply.error:
                raise ReaderError(f"reading games failed:\n{reply.error}")
        found = [game for reply in replies for game in reply.games]
        return [game if isinstance(game, ReadGame) else RecordRejected(*game) for game in found]

    def close(self) -> None:
        """See `Reader`."""
        while self._processes:
            self._processes.pop().close()

    def _start(self) -> None:
        while len(self._processes) < self._count:
            self._processes.append(_Process(self._orders))

    def _exchanged(self, portions: Sequence[Sequence[Entry]]) -> list[Answers]:
        """Send each portion to a process and return the replies. Raises `Unavailable` when one is lost: read them again."""
        working = self._processes[: len(portions)]
        try:
            for process, portion in zip(working, portions, strict=True):
                process.send(list(portion))
            return [process.receive() for process in working]
        except (EOFError, OSError) as error:
            codes = self._end()
            self._losses += 1
            text = f"a process that reads games was lost: exit codes {codes} ({type(error).__name__})"
            if self._losses >= MOST_LOSSES:
                raise ReaderError(f"{text}, {self._losses} times in a row") from error
            raise Unavailable(f"{text}; others are started") from error

    def _end(self) -> list[int]:
        """End all processes, as answers to other portions may be under way, and return their exit codes."""
        codes = [process.close() for process in self._processes]
        self._processes.clear()
        return codes
