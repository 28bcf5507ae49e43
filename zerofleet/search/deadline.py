"""Deadline of a search with a budget of wall-clock time."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MOST_SIMULATIONS", "Deadline", "simulations_within"]

MOST_SIMULATIONS = 100_000
"""Limit per move, as in `SearchSettings`."""
_SIMULATIONS_A_S = 500_000  # faster than any network, slower than the rules alone


def simulations_within(limit_s: float) -> int:
    """Return the limit of simulations of a budget of time, within which a decided position does not exceed the time.

    Terminal positions need no evaluation, so no evaluation would end their search.
    """
    return max(1, min(round(limit_s * _SIMULATIONS_A_S), MOST_SIMULATIONS))


class Deadline:
    """Stops at the step nearest to the limit, if each step takes as long as the previous one."""

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        """Begin the time; `clock` returns seconds and never runs backwards."""
        self._clock = clock
        self._began_s = self._stepped_s = clock()
        self._ends_s = self._began_s + limit_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began_s

    def is_time_up(self) -> bool:
        """Return whether another step would end further from the limit than stopping now; called once after each step."""
        now_s, before_s = self._clock(), self._stepped_s
        self._stepped_s = now_s
        return now_s + (now_s - before_s) / 2 >= self._ends_s
