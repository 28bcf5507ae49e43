"""Processes of one stack, servers and their workers: started, pinned, read, ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.stack.figures import Reading, Turn, turn_of
from benchmarks.stack.pipes import read_reading
from zerofleet.evaluators.transports import Transport

__all__ = ["Plan", "Stack"]

_WARM_UP_S = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Shape of a stack."""

    workers: int = 1
    servers: int = 1
    front_ends: int = 0
    """Front ends of each server; 0 or 1: gRPC ends in the server itself."""
    transport: Transport = "shared_memory"
    max_batch: int = 4096
    batch_us: float = 0.0
    row_ns: float = 0.0
    in_flight: int = 1
    """Batches on a device at once."""
    slots: int = 512
    lanes: int = 3
    preset: str = "laptop"
    simulations: int = 0
    """Simulations a move; 0: those of the preset."""
    cache: int | None = None
    """Entries of a block's evaluation cache; None: those of the preset."""
    pins: bool = False
    """Whether each process keeps to one core, in turn: servers, their front ends, workers."""

    @property
    def processes(self) -> dict[str, int]:
        """Number of processes by kind."""
        fronts = self.servers * self.front_ends if self.front_ends > 1 else 0
        found = {"server": self.servers, "front end": fronts, "worker": self.workers}
        return {kind: count for kind, count in found.items() if count}


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[str]
    said: str = field(default="")

    @classmethod
    def of(cls, module: str, options: dict[str, object]) -> Self:
        """Start a module of this package with its options; options of None are left out."""
        given = [text for name, value in options.items() if value is not None for text in (f"--{name}", str(value))]
        limits = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", f"benchmarks.stack.{module}", *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **limits},
            )
        )

    def line(self) -> str:
        assert self.process.stdout is not None  # noqa: S101
        return self.process.stdout.readline()

    def ask(self) -> None:
        assert self.process.stdin is not None  # noqa: S101
        self.process.stdin.write("read\n")
        self.process.stdin.flush()


class Stack:
    """Servers and workers in progress; a context manager."""

    def __init__(self, plan: Plan, store: Path, directory: Path) -> None:
        """Start all processes; workers play from now on. Raises `EOFError` if one ends."""
        self.plan = plan
        self._children: list[_Child] = []
        try:
            self._servers = [self._server(store, directory / f"{index}.sock") for index in range(plan.servers)]
            addresses = [self._said(server) for server in self._servers]
            self._workers = [self._worker(addresses[index % plan.servers], index) for index in range(plan.workers)]
            for worker in self._workers:
                self._said(worker)
            self._fronts = [front for server in self._servers for front in psutil.Process(server.process.pid).children()]
            if plan.pins:
                self._pin()
        except BaseException:
            self.close()
            raise
        time.sleep(_WARM_UP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def measure(self, seconds: float) -> Turn:
        """Return the figures of the next `seconds`. Raises `EOFError` if a process ended."""
        before = self._read()
        time.sleep(seconds)
        return turn_of(before, self._read())

    def close(self) -> None:
        """End all processes: workers first."""
        for child in reversed(self._children):
            child.process.communicate()

    def _server(self, store: Path, socket: Path) -> _Child:
        plan = self.plan
        over_tcp = plan.transport == "grpc"
        options = {"store": store, "address": "127.0.0.1:0" if over_tcp else f"unix:{socket}", "front-ends": plan.front_ends}
        timing = {"max-batch": plan.max_batch, "batch-us": plan.batch_us, "row-ns": plan.row_ns}
        return self._started("server", {**options, **timing, "in-flight": plan.in_flight})

    def _worker(self, address: str, index: int) -> _Child:
        plan = self.plan
        options = {"target": address, "transport": plan.transport, "preset": plan.preset, "seed": index}
        sizes = {"lanes": plan.lanes, "slots": plan.slots, "simulations": plan.simulations, "cache": plan.cache}
        return self._started("worker", {**options, **sizes})

    def _started(self, module: str, options: dict[str, object]) -> _Child:
        self._children.append(_Child.of(module, options))
        return self._children[-1]

    @staticmethod
    def _said(child: _Child) -> str:
        if not (line := child.line().strip()):
            raise EOFError("a process of the stack ended before it was ready; its errors are above")
        return line

    def _pin(self) -> None:
        pids = [child.process.pid for child in self._servers] + [front.pid for front in self._fronts]
        pids += [child.process.pid for child in self._workers]
        cores = sorted(os.sched_getaffinity(0))
        for index, pid in enumerate(pids):
            for thread in psutil.Process(pid).threads():  # later threads inherit it
                os.sched_setaffinity(thread.id, {cores[index % len(cores)]})

    def _read(self) -> dict[str, list[Reading]]:
        for child in (*self._servers, *self._workers):
            child.ask()
        found = {"server": [read_reading(child.line()) for child in self._servers]}
        found["worker"] = [read_reading(child.line()) for child in self._workers]
        found["front end"] = [Reading(time.monotonic(), sum(front.cpu_times()[:2])) for front in self._fronts]
        return found
