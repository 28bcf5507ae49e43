"""Connect Four solver: the score of any position on boards of up to 64 bits.

    solver = Solver(games.make("connect_four"), book=shipped_book(game))
    solver.scores(state).scores      # of every legal move, for the player to move

Scores are defined in `zerofleet.agents.exact.solver.search`. Openings are looked up in the book, if there is one; other
positions are solved by bisecting the range of scores with null-window searches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from games import core
from games.connect_four import ConnectFour
from games.core import State
from games.positions import legal, titled
from zerofleet.agents.exact.solver.book import Book
from zerofleet.agents.exact.solver.cells import Board
from zerofleet.agents.exact.solver.search import NODES, VALUE, begin, outlook, room_for, run
from zerofleet.agents.exact.solver.table import MIN_BITS, empty_table
from zerofleet.errors import InvalidRequest, ZerofleetError

__all__ = ["BestMoves", "ScoredMoves", "Solver", "SolverStopped", "board_of", "fits"]

MAX_NODES = 4_000_000_000
"""Node limit per query, about ten minutes. Every position of 6 x 7 takes far less."""

SLICE_NODES = 20_000_000  # two to four seconds; signals are handled between slices
_WATCHED_NODES = 2_000_000  # a fraction of a second: how soon a search that can be stopped ends


class SolverStopped(ZerofleetError):
    """Search that its caller stopped before the score was found."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ScoredMoves:
    """Legal moves of a position with their scores for the player to move."""

    actions: np.ndarray  # int16 [n], ascending
    scores: np.ndarray  # int64 [n]
    nodes: int
    """Number of visited nodes; 0 if the book had all scores."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest score, int16 [m]."""
        return np.asarray(self.actions[self.scores == self.scores.max()])


@dataclass(frozen=True, slots=True)
class BestMoves:
    """Best moves of a position."""

    actions: np.ndarray  # int16 [m], ascending
    score: int
    """Score for the player to move."""
    nodes: int
    """Number of visited nodes."""


def fits(game: core.Game) -> bool:
    """Return whether the solver supports the game: Connect Four on a board of at most 64 bits, including the spare row."""
    return isinstance(game, ConnectFour) and (game.rows + 1) * game.columns <= 64


def board_of(game: ConnectFour) -> Board:
    """Return the board of a game that `fits`."""
    bottoms = sum(1 << column * (game.rows + 1) for column in range(game.columns))
    cells = bottoms * ((1 << game.rows) - 1)
    return Board(game.rows, game.columns, game.connect, np.uint64(cells), np.uint64(bottoms))


class Solver:
    """Solver of all positions of one game. Thread-safe: queries are serialised by a lock."""

    def __init__(
        self,
        game: ConnectFour,
        *,
        book: Book | None = None,
        table: np.ndarray | int = MIN_BITS,
        max_nodes: int = MAX_NODES,
    ) -> None:
        """Create a solver.

        Args:
            game: A game that `fits`.
            book: Opening book of the same game.
            table: Binary logarithm of the size of the transposition table, or a table shared with other solvers.
            max_nodes: Node limit per query.

        Raises:
            InvalidRequest: The game does not fit, or the book is for another game.
        """
        if not fits(game):
            raise InvalidRequest(f"{titled(game)} is too large for the solver; want (rows + 1) * columns of at most 64")
        game = game._replace(encoding=0)  # the encoding is no part of the rules
        if book is not None and book.game != game:
            raise InvalidRequest(f"the book is for {titled(book.game)}, not for {titled(game)}")
        self.game = game
        self.book = book
        self._board = board_of(game)
        self._room = room_for(self._board)
        self._table = empty_table(table) if isinstance(table, int) else table
        self._max_nodes = max_nodes
        self._nodes = 0
        self._is_stopped: Callable[[], bool] = _never
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load or compile the search, so that the first query does not include this time."""
        outlook(self._board, np.uint64(0), np.uint64(0))
        run(self._board, self._room, self._table, 0)

    def companion(self) -> Solver:
        """Return a solver for another thread, with the same book and table."""
        return Solver(self.game, book=self.book, table=self._table, max_nodes=self._max_nodes)

    def score(self, state: State, *, is_stopped: Callable[[], bool] = _never) -> tuple[int, int]:
        """Return the score of a position for the player to move and the number of visited nodes.

        Raises `InvalidRequest` above `max_nodes` nodes, `SolverStopped` soon after `is_stopped` returns true.
        """
        with self._lock:
            self._begin(is_stopped)
            return self._score(state), self._nodes

    def scores(self, state: State, *, is_stopped: Callable[[], bool] = _never) -> ScoredMoves:
        """Return every legal move with its score; raises like `score`."""
        with self._lock:
            self._begin(is_stopped)
            actions = legal(self.game, state)
            found = [-self._score(self._after(state, action)) for action in actions]
            return ScoredMoves(np.array(actions, dtype=np.int16), np.array(found, dtype=np.int64), self._nodes)

    def best(self, state: State) -> BestMoves:
        """Return the moves of the highest score: the earliest wins or the latest losses. Raises like `score`."""
        with self._lock:
            self._begin(_never)
            score = self._score(state)
            actions = [a for a in legal(self.game, state) if self._score(self._after(state, a), -score, 1 - score) <= -score]
            return BestMoves(np.array(actions, dtype=np.int16), score, self._nodes)

    def keeping(self, state: State) -> BestMoves:
        """Return the moves that keep a win, a draw or a loss, with score 1, 0 or -1; raises like `score`.

        Much cheaper than `best`, above all in lost positions, where every move qualifies.
        """
        with self._lock:
            self._begin(_never)
            value = int(np.sign(self._score(state, -1, 1)))
            actions = legal(self.game, state)
            if value >= 0:
                actions = [a for a in actions if self._score(self._after(state, a), -value, 1 - value) <= -value]
            return BestMoves(np.array(actions, dtype=np.int16), value, self._nodes)

    def lost(self, state: State, action: int, *, is_stopped: Callable[[], bool] = _never) -> int:
        """Return the score difference between the best move and `action`; raises like `score`."""
        with self._lock:
            self._begin(is_stopped)
            score, after = self._score(state), self._after(state, action)
            if self._score(after, -score, 1 - score) <= -score:
                return 0  # most moves of strong players: one null window instead of several
            return score + self._score(after)

    def _begin(self, is_stopped: Callable[[], bool]) -> None:
        self._nodes, self._is_stopped = 0, is_stopped

    def _after(self, state: State, action: int) -> State:
        after = state.copy()
        core.play(self.game, after, action)
        return after

    def _score(self, state: State, low: int | None = None, high: int | None = None) -> int:
        """Return the score if it is within [low, high], else some score on the same side of that range."""
        stones = [int(word) for word in state[1:3]]
        taken = stones[0] | stones[1]
        mine = stones[core.to_move(self.game, state)]
        left = self.game.rows * self.game.columns - taken.bit_count()
        if core.is_over(self.game, state):
            return -(left // 2 + 1) if self._is_won(state) else 0
        seen = outlook(self._board, np.uint64(mine), np.uint64(taken))
        if seen.wins:
            return (left + 1) // 2
        known = None if self.book is None else self.book.find(int(seen.code), taken.bit_count())
        if known is not None:
            return known
        least, most = -(left // 2), (left - 1) // 2
        low, high = max(least, least if low is None else low), min(most, most if high is None else high)
        return self._halve((mine, taken, int(seen.threats)), low, high)

    def _is_won(self, state: State) -> bool:
        scores = np.zeros(2, dtype=np.float32)
        core.scores(self.game, state, scores)
        return bool(scores.any())

    def _halve(self, position: tuple[int, int, int], low: int, high: int) -> int:
        """Return the score of a position within [low, high], or the nearer bound if it is outside.

        The first null windows are near 0, where they are cheap and most informative (Pons).
        """
        while low < high:
            middle = (low + high) // 2
            if middle <= 0 and low // 2 < middle:
                middle = -(-low // 2)
            elif middle >= 0 and high // 2 > middle:
                middle = high // 2
            value = self._exceeds(position, middle)
            if value <= middle:
                high = value
            else:
                low = value
        return low

    def _exceeds(self, position: tuple[int, int, int], bound: int) -> int:
        """Return an upper bound of the score if it is at most `bound`, else a lower bound."""
        begin(self._room, position, bound)
        walk, spent = self._room.walk, self._nodes
        done, most = False, SLICE_NODES if self._is_stopped is _never else _WATCHED_NODES
        while not done:
            if self._is_stopped():
                raise SolverStopped("the search was stopped before it found the score")
            done = run(self._board, self._room, self._table, min(walk[NODES] + most, self._max_nodes - spent))
            self._nodes = spent + int(walk[NODES])
            if not done and self._nodes >= self._max_nodes:
                raise InvalidRequest(
                    f"{titled(self.game)} after {position[1].bit_count()} plies is too hard: the search exceeds "
                    f"{self._max_nodes:,} positions; use a smaller board or a later position"
                )
        return int(walk[VALUE])
