"""Arithmetic of the stack: what each process uses for a million positions, and the rates that follow for other machines.

A process that uses s processor seconds for a million positions fills a core at 1e6 / s positions a second: its limit. Several
processes of a kind have the sum of their limits. Where each process has a core of its own, the kind with the lowest sum decides
the rate; where cores are fewer, all processes together can use no more processor time than there is.

Both are upper bounds. They leave out waits: for the device, for a request in progress, for a lock.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Reading", "Turn", "Usage", "expected_rate", "medians", "turn_of"]

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """Totals of a process since its start, read at one time."""

    at_s: float
    """Monotonic clock of the machine, the same in all processes."""
    processor_s: float
    positions: int = 0
    """Positions evaluated for a worker; 0 for other processes."""
    simulations: int = 0
    games: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A measured turn of one stack."""

    positions_per_s: float
    """By the wall clock; the sum over workers."""
    simulations_per_position: float
    seconds_per_million: Mapping[str, float]
    """Processor seconds for a million positions by kind of process; the sum over its processes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds of one process of a kind for a million of the positions that pass through it."""

    seconds_per_million: float

    @property
    def limit(self) -> float:
        """Positions a second at which the process fills a core."""
        return MILLION / self.seconds_per_million


def turn_of(before: Mapping[str, Sequence[Reading]], after: Mapping[str, Sequence[Reading]]) -> Turn:
    """Return the figures between two readings of the same processes by kind; `worker` is the kind that counts positions.

    Raises `ValueError` if no position was evaluated in between.
    """
    pairs = [(one, two) for one, two in zip(before["worker"], after["worker"], strict=True)]
    positions = sum(two.positions - one.positions for one, two in pairs)
    if positions <= 0:
        raise ValueError("no position was evaluated between the two readings; measure longer")
    rate = sum((two.positions - one.positions) / (two.at_s - one.at_s) for one, two in pairs)
    simulations = sum(two.simulations - one.simulations for one, two in pairs)
    used = {
        kind: sum(two.processor_s - one.processor_s for one, two in zip(before[kind], readings, strict=True))
        for kind, readings in after.items()
    }
    return Turn(
        rate, simulations / positions, {kind: MILLION * seconds / positions for kind, seconds in used.items() if after[kind]}
    )


def medians(turns: Sequence[Turn]) -> Turn:
    """Return the medians of several turns of one stack."""
    return Turn(
        statistics.median(turn.positions_per_s for turn in turns),
        statistics.median(turn.simulations_per_position for turn in turns),
        {kind: statistics.median(turn.seconds_per_million[kind] for turn in turns) for kind in turns[0].seconds_per_million},
    )


def expected_rate(
    usage: Mapping[str, Usage], processes: Mapping[str, int], *, cores: int, device_limit: float = float("inf")
) -> tuple[float, str]:
    """Return the upper bound of positions a second of some processes by kind on some cores, and what sets it.

    `device_limit` is that of all devices together. The positions are spread evenly over the processes of a kind.
    """
    bounds = {kind: processes[kind] * usage[kind].limit for kind in processes}
    bounds["cores"] = cores * MILLION / sum(usage[kind].seconds_per_million for kind in processes)
    bounds["device"] = device_limit
    first = min(bounds, key=lambda kind: bounds[kind])
    return bounds[first], first
