"""Iterative deepening of the Abalone players, with aspiration windows, within a budget.

    searched = think(game, state, Budget(3, "plies"), SearchOptions())
    searched.actions[searched.values == searched.values.max()]

At a depth in plies the values are those of plain minimax to that depth with all switches (except quiescence). With a budget of
nodes or milliseconds the last completed depth counts; the first is always completed. Such a search also stops when a win or a
loss is proven, when there is a single move, or when the game ends before the horizon.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from games import core
from games.abalone import Abalone
from games.core import State
from games.kit.randomness import mix64
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.abalone import search
from zerofleet.agents.by_game.abalone.evaluation import EvaluationName, evaluation
from zerofleet.agents.by_game.abalone.search import Orders, Room, Switches, search_root, values_at_sight
from zerofleet.agents.by_game.abalone.table import table_of_thread
from zerofleet.agents.spelling import AgentOptions

__all__ = ["SearchOptions", "Searched", "think"]

_MAX_DEPTH = 60
_NO_LIMIT = 1 << 62


class SearchOptions(AgentOptions):
    """Options of the search. Only `evaluation` and `quiescence` change values, the others affect speed."""

    evaluation: EvaluationName = "simple"
    """Evaluation at the horizon, see `zerofleet.agents.by_game.abalone.evaluation`."""
    deepening: bool = True
    """Iterative deepening; required by a budget of nodes or milliseconds."""
    table: bool = True
    """Transposition table."""
    killers: bool = True
    """Killer moves: cutoff moves of the same ply are searched first."""
    history: bool = True
    """History heuristic: frequent cutoff moves are searched early."""
    static: bool = True
    """Move ordering by static value, at the root and well before the horizon."""
    aspiration: bool = True
    """Aspiration window around the previous value; needs `deepening`."""
    quiescence: bool = False
    """Quiescence: captures are played out at the horizon."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a search. n moves."""

    actions: np.ndarray  # int16 [n], by descending static value, then ascending
    values: np.ndarray
    """Int64 [n], for the player to move, times the scale of the evaluation; exact for the best, else upper bounds."""
    depth: int
    """Last completed depth."""
    nodes: int
    """Number of positions searched, including the root, at all depths."""
    evaluated: int
    """Number of positions evaluated, including those for move ordering."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest value, int16 [m], in the same order."""
        return np.asarray(self.actions[self.values == self.values.max()])


def think(game: Abalone, state: State, budget: Budget, options: SearchOptions) -> Searched:
    """Search a position that is not over, within a budget of plies, nodes or milliseconds."""
    search_here = _Search(game, state, options, budget.amount if budget.unit == "plies" else _MAX_DEPTH)
    if budget.unit == "plies":
        return search_here.to(budget.amount)
    if budget.unit == "nodes":
        return search_here.within(nodes=budget.amount)
    return search_here.within(time_s=budget.amount / 1000)


@contextmanager
def _alarm(delay_s: float, flag: np.ndarray) -> Iterator[None]:
    """Set `flag` (int64 [1]) to 1 after `delay_s`, at once if it is not positive, unless the block ends earlier."""
    timer = threading.Timer(delay_s, flag.__setitem__, (0, 1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class _Search:
    """Search of one position to successive depths."""

    def __init__(self, game: Abalone, state: State, options: SearchOptions, deepest: int) -> None:
        self._game = game
        self._options = options
        self._evaluation = evaluation(options.evaluation)
        self._plies = int(state[2]) & 0xFFFFFFFF
        self._room = _room(game, state, options, min(deepest, _MAX_DEPTH))
        count = core.legal_actions(game, self._room.stack[0], self._room.listed[0])
        values_at_sight(game, self._room, count)
        order = np.argsort(-self._room.merits[0, :count], kind="stable")  # stable: ties stay ascending
        self._actions = self._room.listed[0, order]
        self._values = np.zeros(count, dtype=np.int64)

    def to(self, depth: int) -> Searched:
        """Search to a depth without a limit."""
        first = 1 if self._options.deepening else depth
        for at in range(first, depth + 1):
            self._complete(at)
        return self._found(depth)

    def within(self, *, nodes: int = _NO_LIMIT, time_s: float | None = None) -> Searched:
        """Deepen iteratively until `nodes` positions are searched or `time_s` is over; depth 1 is completed in any case."""
        began_s = time.monotonic()
        self._complete(1)
        if time_s is None:
            return self._found(self._deepened(nodes))
        with _alarm(time_s - (time.monotonic() - began_s), self._room.interrupt):
            return self._found(self._deepened(nodes))

    def _deepened(self, nodes: int) -> int:
        """Search to further depths until stopped; return the last completed one."""
        depth = 1
        self._room.counts[search.LIMIT] = nodes
        while depth < min(_MAX_DEPTH, self._game.ply_cap - self._plies) and not self._is_decided():
            if self._room.counts[search.NODES] >= nodes or not self._complete(depth + 1):
                break
            depth += 1
        return depth

    def _is_decided(self) -> bool:
        return len(self._actions) == 1 or abs(int(self._values.max())) >= search.WON

    def _complete(self, depth: int) -> bool:
        """Search to one depth and store its values; return False if stopped."""
        room, count = self._room, len(self._actions)
        reach = self._plies + depth + (search.CAPTURES if self._options.quiescence else 0)
        room.counts[search.WITH_PLIES] = reach >= self._game.ply_cap
        order = self._order(depth)
        room.listed[0, :count] = self._actions[order]
        window = self._window(depth)
        while True:
            best = search_root(self._game, room, count, depth, *window)
            if room.counts[search.STOPPED]:
                return False
            if window[0] < best < window[1] or window == _FULL:
                break
            window = (-search.HIGHEST, window[1]) if best <= window[0] else (window[0], search.HIGHEST)
        self._values[order] = room.merits[0, :count]
        return True

    def _order(self, depth: int) -> np.ndarray:
        """Return the order of the root's moves: by the values of the previous depth, if any."""
        if depth > 1 and self._options.deepening:
            return np.argsort(-self._values, kind="stable")
        return np.arange(len(self._actions)) if self._options.static else np.argsort(self._actions)

    def _window(self, depth: int) -> tuple[int, int]:
        """Return the first search window of the root."""
        if depth == 1 or not (self._options.aspiration and self._options.deepening):
            return _FULL
        last, margin = int(self._values.max()), self._evaluation.marble // _MARGINS
        return last - margin, last + margin

    def _found(self, depth: int) -> Searched:
        counts = self._room.counts
        return Searched(self._actions, self._values, depth, int(counts[search.NODES]), int(counts[search.EVALUATED]))


_FULL = (-search.HIGHEST, search.HIGHEST)
_MARGINS = 4
"""Half width of the aspiration window as a fraction of a marble: a quarter."""


def _room(game: Abalone, state: State, options: SearchOptions, depth: int) -> Room:
    """Allocate buffers for a search `depth` plies deep from a copy of `state`."""
    spec = game.spec()
    rows = depth + 2 + search.CAPTURES
    stack = np.empty((rows, spec.state_size), dtype=spec.state_dtype)
    stack[0] = state
    table, stamp = table_of_thread()
    counts = np.zeros(6, dtype=np.int64)
    counts[search.NODES], counts[search.LIMIT] = 1, _NO_LIMIT  # the root
    counts[search.KEY_SALT] = np.uint64(mix64(np.uint64(stamp))).astype(np.int64)
    return Room(
        switches=Switches(
            static=int(options.static),
            history=int(options.history),
            killers=int(options.killers),
            table=int(options.table),
            quiet=int(options.quiescence),
        ),
        weights=evaluation(options.evaluation).weights,
        stack=stack,
        listed=np.empty((rows, spec.max_legal), dtype=np.int16),
        merits=np.empty((rows, spec.max_legal), dtype=np.int64),
        orders=Orders(np.full((rows, 2), -1, dtype=np.int64), np.zeros((2, spec.num_actions), dtype=np.int64)),
        table=table,
        counts=counts,
        interrupt=np.zeros(1, dtype=np.int64),
    )
