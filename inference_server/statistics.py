"""Statistics of one served version, in the terms of KServe's ModelStatistics."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field

from inference_server.queueing import BatchReport

__all__ = ["Duration", "VersionStatistics"]


@dataclass(slots=True)
class Duration:
    """Number of events and their total duration."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Count `count` events that took `seconds` together."""
        self.count += count
        self.seconds += seconds


@dataclass(slots=True)
class VersionStatistics:
    """Totals since the version was loaded; durations count requests unless noted."""

    positions: int = 0
    batches: int = 0
    last_at_ms: int = 0
    """Wall-clock time of the last batch, milliseconds since 1970; 0 before the first."""
    success: Duration = field(default_factory=Duration)
    failure: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)
    by_rows: defaultdict[int, Duration] = field(default_factory=lambda: defaultdict(Duration))
    """Durations of batches by their number of positions."""

    def add_batch(self, report: BatchReport) -> None:
        """Add one batch."""
        self.positions += report.rows
        self.batches += 1
        self.last_at_ms = time.time_ns() // 1_000_000
        self.queue.add(sum(wait.seconds for wait in report.waits), len(report.waits))
        self.compute.add(report.compute_s * report.requests, len(report.waits))
        self.by_rows[report.rows].add(report.compute_s)
