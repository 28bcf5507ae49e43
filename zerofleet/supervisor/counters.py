"""Counters of all services together: totals across restarts, and rates over a sliding window."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

from zerofleet.supervisor.pages import MetricsPage

__all__ = ["Meter", "Totals"]

RATE_WINDOW_S = 30.0

_Labels: TypeAlias = frozenset[tuple[str, str]]


class Totals:
    """Sums of counters across restarts: a counter that decreases was reset and continues from its last total."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, _Labels], float] = {}
        self._sums: dict[str, dict[_Labels, float]] = {}

    def take(self, service: str, page: MetricsPage) -> None:
        """Add a page of a service."""
        for name, labels, value in page.counters():
            series = frozenset(labels.items())
            before = self._last.get((service, name, series), 0.0)
            self._last[service, name, series] = value
            sums = self._sums.setdefault(name, {})
            sums[series] = sums.get(series, 0.0) + (value - before if value >= before else value)

    def of(self, name: str, **labels: str) -> float:
        """Return the total of a counter over all services and the series with these labels, 0 before its first sample."""
        return math.fsum(value for found, value in self._sums.get(name, {}).items() if labels.items() <= found)


class Meter:
    """Rates of totals over a sliding window."""

    def __init__(self, window_s: float = RATE_WINDOW_S) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, Mapping[str, float]]] = deque()

    def take(self, at_s: float, totals: Mapping[str, float]) -> None:
        """Add the totals at a time, by name."""
        self._seen.append((at_s, totals))
        while len(self._seen) > 2 and self._seen[1][0] <= at_s - self._window_s:
            self._seen.popleft()

    def per_second(self, name: str) -> float:
        """Return the rate of a total; NaN before two samples."""
        return self.ratio(name, None)

    def ratio(self, name: str, other: str | None) -> float:
        """Return the growth of a total per unit growth of another (None: per second); NaN if that is zero."""
        if len(self._seen) < 2:
            return math.nan
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        grown = last[name] - first[name]
        per = last_s - first_s if other is None else last[other] - first[other]
        return grown / per if per > 0 else math.nan
