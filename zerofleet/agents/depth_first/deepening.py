"""Iterative deepening: searches to 1, 2, 3, .. plies until the budget is spent, each begun with the best move of the last.

    found = deepen(search, Budget.parse("50ms", ...), deepest=60)

A search runs in slices, so that a budget of time is kept within a slice: a hundredth of it. The first depth is always
completed. A later one that was interrupted counts as far as it came: its first move is the best of the depth before.

It is over early when there is nothing more to find: the tree has been searched to its ends, a win is proven (the moves that
win soonest are then the best), or all moves lose (then those that looked best before that was seen).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zerofleet.agents.budget import Budget
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_DEPTH", "Deepened", "SearchedMoves", "SlicedSearch", "deepen", "finish", "read_budget"]

MAX_DEPTH = 60
"""Deeper than any machine gets."""

SLICE_NODES = 1 << 20  # between two of them an interrupt is heard
_FIRST_SLICE = 256  # until the speed is known
_SLICES = 100  # of a budget of time
_WON, _LOST = 1.0, -1.0


@dataclass(frozen=True, slots=True)
class SearchedMoves:
    """The moves of a position with their values."""

    actions: np.ndarray  # int16 [n]
    values: np.ndarray  # float64 [n], for the player to move
    nodes: int
    """Positions looked at, the root among them."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest value, int16 [m]."""
        return np.asarray(self.actions[self.values == self.values.max()])


@dataclass(frozen=True, slots=True)
class Deepened:
    """What deepening found."""

    moves: SearchedMoves
    """Only the best ones have exact values; those of others may be bounds, and some may be missing."""
    depth: int
    """The last depth that was completed."""


class SlicedSearch(Protocol):
    """A search of one position to one depth after another, each in slices."""

    @property
    def nodes(self) -> int:
        """Positions looked at so far, at all depths."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether no position was cut off at the horizon: nothing is gained by searching deeper."""
        ...

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search `depth` plies deep that tries the root's moves in this order (int16 [n]); None: any order."""
        ...

    def run(self, quota: int) -> bool:
        """Look at about `quota` more positions; return whether this depth is complete."""
        ...

    def found(self) -> SearchedMoves:
        """Return the root's moves searched at this depth, in the order in which they were tried."""
        ...


def read_budget(spelling: Spelling) -> Budget:
    """Return the plies, nodes or time a move of an agent that searches depth first; raises `InvalidRequest`."""
    try:
        return Budget.parse(spelling.argument, bare="plies", allowed=("plies", "nodes", "ms"))
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs a depth in plies or a budget: {error}") from None


def finish(search: SlicedSearch, depth: int) -> SearchedMoves:
    """Search to one depth, however long it takes."""
    search.begin(depth, None)
    while not search.run(SLICE_NODES):
        pass
    return search.found()


def deepen(search: SlicedSearch, budget: Budget, *, deepest: int, clock: Callable[[], float] = time.perf_counter) -> Deepened:
    """Search deeper and deeper within a budget of nodes or milliseconds.

    Args:
        search: Of a position in which the game goes on.
        budget: Its unit is `nodes` or `ms`.
        deepest: Depth to stop at in any case.
        clock: Seconds, for tests to replace.
    """
    quota = _NodeQuota(search, budget.amount) if budget.unit == "nodes" else _TimeQuota(search, budget.amount / 1000, clock)
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
    """Return the moves that an interrupted depth has searched, and of the others those that were best before.

    Only these have exact values; the best of them were as good as the move that was tried first.
    """
    kept = np.isin(settled.actions, settled.best()) & ~np.isin(settled.actions, latest.actions)
    return SearchedMoves(
        np.concatenate([latest.actions, settled.actions[kept]]),
        np.concatenate([latest.values, settled.values[kept]]),
        latest.nodes,
    )


class _NodeQuota:
    """So many positions in all."""

    def __init__(self, search: SlicedSearch, limit: int) -> None:
        self._search = search
        self._limit = limit

    def next_slice(self) -> int:
        """Return how many positions to look at next; 0: the budget is spent."""
        return max(0, min(SLICE_NODES, self._limit - self._search.nodes))


class _TimeQuota:
    """As many positions as fit into a time, a hundredth of it at once."""

    def __init__(self, search: SlicedSearch, limit_s: float, clock: Callable[[], float]) -> None:
        self._search = search
        self._clock = clock
        self._slice_s = limit_s / _SLICES
        self._sliced_at = clock()
        self._ends_at = self._sliced_at + limit_s
        self._nodes = search.nodes
        self._quota = 0

    def next_slice(self) -> int:
        """Return how many positions to look at next; 0: the time is over."""
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
