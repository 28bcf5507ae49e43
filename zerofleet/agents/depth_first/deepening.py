"""Iterative deepening: searches to 1, 2, 3, … plies until the budget is spent, each starting with the previous best move.

    found = deepen(search, Budget.parse("50ms", ...), deepest=60)

A search runs in slices, so that a time budget is exceeded by at most one slice, a hundredth of it. The first depth is always
completed. The moves searched at an interrupted depth count, since its first move is the best one of the previous depth; if all
of them lose, the others count with their values of the previous depth.

Deepening stops early when the tree is exhausted, when a win is proven (the quickest winning moves are then the best) or when
all moves lose (the moves that were best at the previous depth are then returned).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zerofleet.agents.budget import Budget, BudgetUnit
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_DEPTH", "Deepened", "SearchedMoves", "SlicedSearch", "deepen", "finish", "read_budget"]

MAX_DEPTH = 60
"""Depth limit, beyond the reach of any machine."""

SLICE_NODES = 1 << 20  # signals are handled between slices
_FIRST_SLICE = 256  # until the speed is known
_SLICES = 100  # per time budget
_WON, _LOST = 1.0, -1.0


@dataclass(frozen=True, slots=True)
class SearchedMoves:
    """Moves of a position with their values."""

    actions: np.ndarray  # int16 [n]
    values: np.ndarray  # float64 [n], for the player to move
    nodes: int
    """Number of visited positions, including the root."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest value, int16 [m]."""
        return np.asarray(self.actions[self.values == self.values.max()])


@dataclass(frozen=True, slots=True)
class Deepened:
    """Result of iterative deepening."""

    moves: SearchedMoves
    """Moves; only the best ones have exact values, others may have bounds or be missing."""
    depth: int
    """Last completed depth."""


class SlicedSearch(Protocol):
    """Search of one position to successive depths, each in slices."""

    @property
    def nodes(self) -> int:
        """Number of positions visited so far, over all depths."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether no position was cut off at the horizon, so that a deeper search finds nothing new."""
        ...

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search `depth` plies deep with the root's moves in this order (int16 [n]); None: any order."""
        ...

    def run(self, quota: int) -> bool:
        """Visit about `quota` more positions; return whether this depth is complete."""
        ...

    def found(self) -> SearchedMoves:
        """Return the root's moves searched at this depth, in search order."""
        ...


def read_budget(spelling: Spelling, *, processor_time: bool = False) -> Budget:
    """Parse the budget of a depth-first agent in plies, nodes or time; raises `InvalidRequest`.

    `processor_time`: whether the agent takes budgets of processor time.
    """
    allowed: tuple[BudgetUnit, ...] = ("plies", "nodes", "ms")
    try:
        return Budget.parse(spelling.argument, bare="plies", allowed=(*allowed, "cpu_ms") if processor_time else allowed)
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs a depth in plies or a budget: {error}") from None


def finish(search: SlicedSearch, depth: int) -> SearchedMoves:
    """Search to one depth without a time limit."""
    search.begin(depth, None)
    while not search.run(SLICE_NODES):
        pass
    return search.found()


def deepen(search: SlicedSearch, budget: Budget, *, deepest: int, clock: Callable[[], float] | None = None) -> Deepened:
    """Search to increasing depths within a budget of nodes or milliseconds.

    Args:
        search: Search of a position that is not over.
        budget: Budget in `nodes` or of time.
        deepest: Maximum depth.
        clock: Time in seconds, replaceable in tests; None: the clock of the budget.
    """
    timed = _TimeQuota(search, budget.amount / 1000, clock or budget.clock) if budget.is_time else None
    quota = timed or _NodeQuota(search, budget.amount)
    settled = finish(search, 1)
    depth = 1
    while depth < deepest and not _is_decided(search, settled):
        search.begin(depth + 1, settled.actions[np.argsort(-settled.values, kind="stable")])
        complete = False
        while not complete and (slice_nodes := quota.next_slice()):
            complete = search.run(slice_nodes)
        latest = search.found()
        if not complete:
            settled = _merged(settled, latest)
            break
        if latest.values.max() <= _LOST:  # hold out as long as possible
            settled = SearchedMoves(settled.best(), np.full(len(settled.best()), _LOST), latest.nodes)
            depth += 1
            break
        settled, depth = latest, depth + 1
    return Deepened(SearchedMoves(settled.actions, settled.values, search.nodes), depth)


def _is_decided(search: SlicedSearch, settled: SearchedMoves) -> bool:
    return search.exhausted or len(settled.actions) == 1 or bool(settled.values.max() >= _WON)


def _merged(settled: SearchedMoves, latest: SearchedMoves) -> SearchedMoves:
    """Return the moves searched at an interrupted depth, and those of the others that were best at the previous one.

    Only the latter have exact values: they tied with the move that was searched first. Where every searched move loses, the
    result is the others that are not known to lose, if any, with the values or bounds of the previous depth.
    """
    others = ~np.isin(settled.actions, latest.actions)
    open_moves = others & (settled.values > _LOST)
    if len(latest.values) > 0 and latest.values.max() <= _LOST and open_moves.any():
        return SearchedMoves(settled.actions[open_moves], settled.values[open_moves], latest.nodes)
    kept = np.isin(settled.actions, settled.best()) & others
    return SearchedMoves(
        np.concatenate([latest.actions, settled.actions[kept]]),
        np.concatenate([latest.values, settled.values[kept]]),
        latest.nodes,
    )


class _NodeQuota:
    """Limit on the total number of positions."""

    def __init__(self, search: SlicedSearch, limit: int) -> None:
        self._search = search
        self._limit = limit

    def next_slice(self) -> int:
        """Return the number of positions to visit next; 0: the budget is spent."""
        return max(0, min(SLICE_NODES, self._limit - self._search.nodes))


class _TimeQuota:
    """Time limit, spent in slices of a hundredth."""

    def __init__(self, search: SlicedSearch, limit_s: float, clock: Callable[[], float]) -> None:
        self._search = search
        self._clock = clock
        self._slice_s = limit_s / _SLICES
        self._sliced_at = clock()
        self._ends_at = self._sliced_at + limit_s
        self._nodes = search.nodes
        self._quota = 0

    def next_slice(self) -> int:
        """Return the number of positions to visit next; 0: the time is over."""
        now = self._clock()
        left_s = self._ends_at - now
        if left_s <= 0.0:
            return 0
        done, took_s = self._search.nodes - self._nodes, now - self._sliced_at
        self._nodes, self._sliced_at = self._search.nodes, now
        if self._quota == 0 or took_s <= 0.0:
            self._quota = _FIRST_SLICE
        else:
            fitting = round(done / took_s * min(self._slice_s, left_s))
            self._quota = min(max(1, fitting), 2 * self._quota, SLICE_NODES)
        return self._quota
