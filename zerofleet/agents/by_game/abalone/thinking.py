"""A move of an Abalone player: searches deeper and deeper, in a narrow window first, until the budget is spent.

    searched = think(game, state, Budget(3, "plies"), SearchOptions())
    searched.actions[searched.values == searched.values.max()]

To a depth in plies the values are those of plain minimax to that depth, whatever is switched on (but quiescence). With a
budget of nodes or milliseconds the last depth that was completed counts; the first always is. The search is then also over
when a win or a loss is proven, there is one move, or the game ends before the horizon.
"""

from __future__ import annotations

import threading
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
    """How to search. Only `evaluation` and `quiescence` change values, the others what they cost."""

    evaluation: EvaluationName = "simple"
    """What positions at the horizon are worth, see `zerofleet.agents.by_game.abalone.evaluation`."""
    deepening: bool = True
    """Whether 1, 2, .. plies are searched before; a budget of nodes or milliseconds needs it."""
    table: bool = True
    """Whether there is a transposition table."""
    killers: bool = True
    """Whether moves that cut at the same ply are tried first."""
    history: bool = True
    """Whether moves that often cut are tried early."""
    static: bool = True
    """Whether moves are tried in the order of their value at first sight, at the root and well before the horizon."""
    aspiration: bool = True
    """Whether a narrow window around the last value is tried first; needs `deepening`."""
    quiescence: bool = False
    """Whether captures are played out at the horizon."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found. n moves."""

    actions: np.ndarray  # int16 [n], the better ones at first sight first, of equal ones the lower number
    values: np.ndarray
    """Int64 [n], for the player to move, times the scale of the evaluation; exact for the best, else at most so much."""
    depth: int
    """The last depth that was completed."""
    nodes: int
    """Positions searched, the root among them, at all depths."""
    evaluated: int
    """Positions whose features were counted, those looked at to order moves among them."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest value, int16 [m], in the same order."""
        return np.asarray(self.actions[self.values == self.values.max()])


def think(game: Abalone, state: State, budget: Budget, options: SearchOptions) -> Searched:
    """Search a position in which the game goes on, within a budget of plies, nodes or milliseconds."""
    search_here = _Search(game, state, options, budget.amount if budget.unit == "plies" else _MAX_DEPTH)
    if budget.unit == "plies":
        return search_here.to(budget.amount)
    if budget.unit == "nodes":
        return search_here.within(budget.amount)
    with _alarm(budget.amount / 1000, search_here.interrupt):
        return search_here.within(_NO_LIMIT)


@contextmanager
def _alarm(delay_s: float, flag: np.ndarray) -> Iterator[None]:
    """Set `flag` (int64 [1]) to 1 after a while, unless the block has ended by then."""
    timer = threading.Timer(delay_s, flag.__setitem__, (0, 1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class _Search:
    """The search of one position to one depth after another."""

    def __init__(self, game: Abalone, state: State, options: SearchOptions, deepest: int) -> None:
        self._game = game
        self._options = options
        self._evaluation = evaluation(options.evaluation)
        self._plies = int(state[2]) & 0xFFFFFFFF
        self._room = _room(game, state, options, min(deepest, _MAX_DEPTH))
        self.interrupt = self._room.interrupt
        count = core.legal_actions(game, self._room.stack[0], self._room.listed[0])
        values_at_sight(game, self._room, count)
        order = np.argsort(-self._room.merits[0, :count], kind="stable")  # listed ascending, so equal ones stay so
        self._actions = self._room.listed[0, order]
        self._values = np.zeros(count, dtype=np.int64)

    def to(self, depth: int) -> Searched:
        """Search to a depth, however long it takes."""
        first = 1 if self._options.deepening else depth
        for at in range(first, depth + 1):
            self._complete(at)
        return self._found(depth)

    def within(self, nodes: int) -> Searched:
        """Search deeper and deeper until so many positions have been searched or `interrupt` is set."""
        self._complete(1)
        depth = 1
        self._room.counts[search.LIMIT] = nodes
        while depth < min(_MAX_DEPTH, self._game.ply_cap - self._plies) and not self._is_decided():
            if self._room.counts[search.NODES] >= nodes or not self._complete(depth + 1):
                break
            depth += 1
        return self._found(depth)

    def _is_decided(self) -> bool:
        return len(self._actions) == 1 or abs(int(self._values.max())) >= search.WON

    def _complete(self, depth: int) -> bool:
        """Search to one depth and keep its values; False if it was stopped."""
        room, count = self._room, len(self._actions)
        reach = self._plies + depth + (search.CAPTURES if self._options.quiescence else 0)
        room.counts[search.WITH_PLIES] = reach >= self._game.ply_cap
        order = self._order(depth)
        room.listed[0, :count] = self._actions[order]
        window = self._window(depth)
        while True:
            best = search_root(self._game, room, count, depth, *window)
            if depth > 1 and room.counts[search.STOPPED]:
                return False
            if window[0] < best < window[1] or window == _FULL:
                break
            window = (-search.HIGHEST, window[1]) if best <= window[0] else (window[0], search.HIGHEST)
        self._values[order] = room.merits[0, :count]
        return True

    def _order(self, depth: int) -> np.ndarray:
        """Return in which order the root's moves are tried: the best of the last depth first, if there was one."""
        if depth > 1 and self._options.deepening:
            return np.argsort(-self._values, kind="stable")
        return np.arange(len(self._actions)) if self._options.static else np.argsort(self._actions)

    def _window(self, depth: int) -> tuple[int, int]:
        """Return the values between which the best is sought first."""
        if depth == 1 or not (self._options.aspiration and self._options.deepening):
            return _FULL
        last, margin = int(self._values.max()), self._evaluation.marble // _MARGINS
        return last - margin, last + margin

    def _found(self, depth: int) -> Searched:
        counts = self._room.counts
        return Searched(self._actions, self._values, depth, int(counts[search.NODES]), int(counts[search.EVALUATED]))


_FULL = (-search.HIGHEST, search.HIGHEST)
_MARGINS = 4
"""The window reaches a quarter of a marble above and below the last value."""


def _room(game: Abalone, state: State, options: SearchOptions, depth: int) -> Room:
    """Return room for a search `depth` plies deep from a copy of `state`."""
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
