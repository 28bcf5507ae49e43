"""Power during a turn: packages of the processor by Intel's RAPL counters, GPUs by `nvidia-smi`.

Both are of the whole machine, other programs included. A meter that this machine lacks or that may not be read gives None: RAPL
is readable by the administrator alone on most systems, and absent from most virtual machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

__all__ = ["PowerMeter", "Watts", "parse_gpu_watts", "rapl_joules", "spent_joules"]

POWERCAP = Path("/sys/class/powercap")
GPU_QUERY = ("--query-gpu=power.draw", "--format=csv,noheader,nounits")
SAMPLE_S = 0.5
MICRO = 1e-6

Work = TypeVar("Work")

Query: TypeAlias = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Watts:
    """Mean power; None where it cannot be read."""

    cpu: float | None = None
    gpu: float | None = None


def rapl_joules(root: Path = POWERCAP) -> dict[str, tuple[float, float]]:
    """Return the energy counter of each processor package and its range, in joules; empty where none can be read."""
    found = {}
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            if (zone / "name").read_text().startswith("package"):
                counts = [int((zone / name).read_text()) * MICRO for name in ("energy_uj", "max_energy_range_uj")]
                found[zone.name] = (counts[0], counts[1])
        except OSError:  # not ours to read
            continue
    return found


def spent_joules(before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]) -> float | None:
    """Return the energy between two readings less than one round of a counter apart; None without a package in both."""
    packages = before.keys() & after.keys()
    if not packages:
        return None
    return sum((after[name][0] - before[name][0]) % after[name][1] for name in packages)


def parse_gpu_watts(output: str) -> float | None:
    """Return the power of all GPUs from the lines of `nvidia-smi`; None if none of them states it."""
    stated = list[float]()
    for line in output.splitlines():
        try:
            stated.append(float(line))
        except ValueError:  # such as [N/A]
            continue
    return sum(stated) if stated else None


async def ask_gpus(program: str) -> str:
    """Return the output of `nvidia-smi` about power. Cancellation: the program ends by itself."""
    query = await asyncio.create_subprocess_exec(program, *GPU_QUERY, stdout=asyncio.subprocess.PIPE)
    output, _ = await query.communicate()
    return output.decode(errors="replace")


class PowerMeter:
    """Meter of a machine."""

    def __init__(
        self, root: Path = POWERCAP, query: Query | None = None, *, clock_s: Callable[[], float] = time.perf_counter
    ) -> None:
        """`root`: folder of the counters; `query`: returns the power of the GPUs, None without GPUs."""
        self._root = root
        self._query = query
        self._clock_s = clock_s

    @classmethod
    def of_this_machine(cls) -> PowerMeter:
        """Return the meter of this machine."""
        program = shutil.which("nvidia-smi")
        return cls(query=None if program is None else functools.partial(ask_gpus, program))

    async def during(self, work: Awaitable[Work]) -> tuple[Work, Watts]:
        """Return the result of `work` and the mean power meanwhile. Cancellation: that of `work`."""
        over, samples = asyncio.Event(), list[float]()
        sampling = asyncio.create_task(self._sample(samples, over))
        before, began_s = rapl_joules(self._root), self._clock_s()
        try:
            result = await work
            joules, elapsed_s = spent_joules(before, rapl_joules(self._root)), self._clock_s() - began_s
        finally:
            over.set()
            await sampling
        gpu = sum(samples) / len(samples) if samples else None
        return result, Watts(None if joules is None else joules / elapsed_s, gpu)

    async def _sample(self, samples: list[float], over: asyncio.Event) -> None:
        """Append the power of the GPUs again and again until `over`. Cancellation: ends it."""
        while self._query is not None and not over.is_set():
            watts = parse_gpu_watts(await self._query())
            if watts is not None:
                samples.append(watts)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), SAMPLE_S)
