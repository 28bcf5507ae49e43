"""The arithmetic of the proofs under load: percentiles, goodput against capacity, and whether memory stays within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

QUICK_MS = 50.0


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of latencies in ms."""

    count: int
    p50: float
    p95: float
    p99: float
    longest: float

    def __str__(self) -> str:
        return f"{self.p50:.1f} / {self.p95:.1f} / {self.p99:.1f} / {self.longest:.1f}"


def latency(found: Sequence[float]) -> Latency:
    """Return the distribution of latencies in ms; nan where there is none."""
    if not found:
        return Latency(0, *[float("nan")] * 4)
    return Latency(len(found), *(float(np.percentile(found, q)) for q in (50, 95, 99)), float(max(found)))


@dataclass(frozen=True, slots=True)
class Overload:
    """What a flood did to a server."""

    rows: int
    seconds: float
    capacity_s: float
    """How long each of the two measurements of capacity took."""
    capacity_before: Mapping[str, Sequence[float]]
    capacity_after: Mapping[str, Sequence[float]]
    flood: Mapping[str, Sequence[float]]
    """Latencies in ms by status, of the clients that flood."""
    probe: Mapping[str, Sequence[float]]
    """The same of a client in a process of its own that asks now and then."""
    worker_positions: float
    """That a self-play worker beside the flood was answered."""
    memory_before_mib: float
    memory_mib: Sequence[float]
    worker_rate_before: float
    worker_rate_after: float
    processor_s: tuple[float, float]
    """Processor time during the flood: of the device's process, and of the front ends."""

    @property
    def capacity(self) -> float:
        """Positions a second without overload, mean of before and after."""
        answered = len(self.capacity_before.get("OK", ())) + len(self.capacity_after.get("OK", ()))
        return answered * self.rows / (2 * self.capacity_s)

    @property
    def goodput(self) -> float:
        """Positions a second that were answered during the flood."""
        return (len(self.flood.get("OK", ())) * self.rows + self.worker_positions) / self.seconds

    @property
    def share(self) -> float:
        """Goodput by capacity."""
        return self.goodput / self.capacity

    @property
    def refused(self) -> Sequence[float]:
        """Latencies in ms of the probe's refused calls."""
        return self.probe.get("RESOURCE_EXHAUSTED", ())

    @property
    def quick_share(self) -> float:
        """Share of them that were refused within 50 ms."""
        return float(np.mean(np.array(self.refused) <= QUICK_MS)) if self.refused else float("nan")

    @property
    def other_statuses(self) -> set[str]:
        """What calls ended with besides an answer and a refusal."""
        return (set(self.flood) | set(self.probe)) - {"OK", "RESOURCE_EXHAUSTED"}

    @property
    def memory_growth_mib(self) -> float:
        """Most memory in the second half of the flood above the most in its first half."""
        half = len(self.memory_mib) // 2
        return max(self.memory_mib[half:]) - max(self.memory_mib[:half])

    def page(self) -> str:
        """Return the figures as a table."""
        refused, refused_flood = latency(self.refused), latency(self.flood.get("RESOURCE_EXHAUSTED", ()))
        rows = [
            (
                "capacity before, after; positions a second",
                f"{self._rate(self.capacity_before)}, {self._rate(self.capacity_after)}",
            ),
            ("goodput under the flood", f"{self.goodput:,.0f}, {self.share:.0%} of capacity"),
            ("calls answered, refused", f"{len(self.flood.get('OK', ())):,}, {refused_flood.count:,}"),
            ("other outcomes", ", ".join(sorted(self.other_statuses)) or "none"),
            (f"refused calls of an idle client ({refused.count}), p50 / p95 / p99 / longest, ms", str(refused)),
            ("of them within 50 ms", f"{self.quick_share:.1%}"),
            ("refused calls as the flooding clients see them, ms", str(refused_flood)),
            ("answered calls as the flooding clients see them, ms", str(latency(self.flood.get("OK", ())))),
            ("memory of the server before, most, growth between halves; MiB", self._memory()),
            ("processor seconds a second of the device's process, of front ends", self._processor()),
            ("a worker's positions a second before, after", f"{self.worker_rate_before:,.0f}, {self.worker_rate_after:,.0f}"),
        ]
        return table(f"{self.rows} positions a request, {self.seconds:.0f} s of flood", rows)

    def _rate(self, found: Mapping[str, Sequence[float]]) -> str:
        return f"{len(found.get('OK', ())) * self.rows / self.capacity_s:,.0f}"

    def _processor(self) -> str:
        return ", ".join(f"{part / self.seconds:.2f}" for part in self.processor_s)

    def _memory(self) -> str:
        return f"{self.memory_before_mib:.0f}, {max(self.memory_mib):.0f}, {self.memory_growth_mib:+.1f}"


@dataclass(frozen=True, slots=True)
class Swap:
    """What promotions did to the evaluations beside them."""

    server: str
    promotions: int
    seconds: float
    calm: Sequence[float]
    """Latencies in ms before and after the promotions."""
    swapping: Sequence[float]
    """During them."""
    failed: Sequence[str]
    loads_ms: Sequence[float]
    """How long each load took."""

    @property
    def ratio(self) -> float:
        """p99 during promotions by p99 without."""
        return latency(self.swapping).p99 / latency(self.calm).p99

    def page(self) -> str:
        """Return the figures as a table."""
        rows = [
            ("promotions", f"{self.promotions} in {self.seconds:.0f} s"),
            ("evaluations during them, failed", f"{len(self.swapping):,}, {len(self.failed)}"),
            ("latency without, p50 / p95 / p99 / longest, ms", str(latency(self.calm))),
            ("latency during them", str(latency(self.swapping))),
            ("p99 during by p99 without", f"{self.ratio:.2f}"),
            ("loading a version, ms", str(latency(self.loads_ms))),
        ]
        return table(self.server, rows)


def table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return rows as Markdown."""
    return "\n".join([f"| {title} | |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows)])
