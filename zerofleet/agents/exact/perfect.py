"""Agents that solve the game: any game small enough to remember every position that matters, and Connect Four on 6 x 7.

`PerfectAgent` searches positions to the end once and remembers them by their key. A position that is won for the player to
move is not searched further, which leaves parts of the game unknown until somebody goes there.

`SolverAgent` asks the solver of Connect Four. By default any move that keeps the value (won, drawn or lost) is as good as
another, as for the agent above: the player who wins does so for sure, not soon. With `prefer=score` it wins as soon and
loses as late as it can.
"""

from __future__ import annotations

import threading
from typing import Literal, NamedTuple, cast

import numpy as np

from games import core
from games.compiled import lean
from games.connect_four import ConnectFour
from games.core import Game, State
from games.positions import copy_state, legal, new_state
from zerofleet.agents.base import Choice, Evaluate, require_duel
from zerofleet.agents.depth_first.alpha_beta import SearchedMoves
from zerofleet.agents.exact.solver import Solver, fits, shipped_book
from zerofleet.agents.scratch import Scratch, scratch_for
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_POSITIONS", "PerfectAgent", "PerfectOptions", "SolverAgent", "from_spelling"]

MAX_POSITIONS = 1 << 22
"""What the agent remembers at most, some 100 MB."""

_FIRST_POSITIONS = 1 << 14
_NO_ROOM = np.inf


class _Memory(NamedTuple):
    """Open addressing: a position stands at its key modulo the capacity, or at the next free place."""

    keys: np.ndarray  # uint64 [capacity], a power of two
    values: np.ndarray  # float32 [capacity], score of player 0; nan: free
    room: np.ndarray  # int64 [1], how many more may be stored


class PerfectAgent:
    """Chooses among the moves that keep the value of the position with equal chances."""

    name = "perfect"

    def __init__(self, game: Game, *, max_positions: int = MAX_POSITIONS) -> None:
        """Solve the game from its start; raises `InvalidRequest` if that takes more than `max_positions`."""
        require_duel(self.name, game)
        self._game = game
        self._max_positions = max_positions
        self._positions = min(_FIRST_POSITIONS, max_positions)
        self._memory = _empty_memory(self._positions)
        self._lock = threading.Lock()
        self.value = float(self.analyse(new_state(game)).values.max())
        """Score of player 0 from the start if both play perfectly."""

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        searched = self.analyse(state)
        return Choice(int(rng.choice(searched.best())), searched.nodes, float(searched.values.max()))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        searched = self.analyse(state)
        return _evenly(searched.values == searched.values.max())

    def analyse(self, state: State) -> SearchedMoves:
        """Return every legal move with its true value; raises `InvalidRequest` if the memory does not suffice."""
        with self._lock:
            while (searched := self._searched(state)) is None:
                self._grow()
        return searched

    def _searched(self, state: State) -> SearchedMoves | None:
        """Return the moves with their values, or None if the memory is full."""
        scratch = scratch_for(self._game, state, self._game.spec().max_plies)
        stack = scratch.stack
        sign = 1.0 if core.to_move(self._game, stack[0]) == 0 else -1.0
        actions = legal(self._game, stack[0])
        values = np.empty(len(actions))
        for i, action in enumerate(actions):
            stack[1] = stack[0]
            core.play(self._game, stack[1], action)
            values[i] = sign * _solve(self._game, scratch, self._memory, 1)
            if np.isinf(values[i]):
                return None
        return SearchedMoves(np.array(actions, dtype=np.int16), values, int(scratch.nodes[0]))

    def _grow(self) -> None:
        """Begin anew with twice the room."""
        if self._positions == self._max_positions:
            raise InvalidRequest(
                f"{self._game} has too many positions to be played perfectly: more than {self._max_positions} of them matter; "
                "take alpha_beta:DEPTH, such as alpha_beta:5"
            )
        self._positions = min(2 * self._positions, self._max_positions)
        self._memory = _empty_memory(self._positions)


class PerfectOptions(AgentOptions):
    """How `perfect` is written."""

    prefer: Literal["value", "score"] = "value"
    """`value`: any move that keeps the value; `score`: only the soonest wins and the latest losses. For Connect Four."""


class SolverAgent:
    """Plays Connect Four perfectly, on boards that fit the solver; among equally good moves each is as likely."""

    def __init__(self, game: ConnectFour, *, prefer: Literal["value", "score"] = "value") -> None:
        """Take a board of at most 64 bits; raises `InvalidRequest`. Positions too hard to solve are refused by `choose`."""
        self.name = "perfect" if prefer == "value" else f"perfect,prefer={prefer}"
        solver = Solver(game, book=shipped_book(game))
        self._ask = solver.best if prefer == "score" else solver.keeping

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`; raises `InvalidRequest` if the position is too hard."""
        found = self._ask(state)
        return Choice(int(rng.choice(found.actions)), found.nodes, float(np.sign(found.score)))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`; raises as `choose` does."""
        return _evenly(np.isin(legal(game, state), self._ask(state).actions))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> PerfectAgent | SolverAgent:
    """Return the agent written `perfect` or `perfect,prefer=score`."""
    spelling.refuse_argument()
    options = spelling.options(PerfectOptions)
    if fits(game):
        return SolverAgent(cast("ConnectFour", game), prefer=options.prefer)
    if options.prefer != "value":
        raise InvalidRequest(
            f"{str(spelling)!r} is for Connect Four on boards of at most 64 bits; write perfect, "
            f"which knows {game.spec().name} as won, drawn or lost"
        )
    return PerfectAgent(game)


def _evenly(good: np.ndarray) -> np.ndarray:
    """Return equal probabilities, float64 [n], for the moves that are `good` (bool [n])."""
    return good / np.count_nonzero(good)


def _empty_memory(positions: int) -> _Memory:
    capacity = 1 << (2 * positions - 1).bit_length()  # a power of two, at most half full
    keys = np.zeros(capacity, dtype=np.uint64)
    return _Memory(keys, np.full(capacity, np.nan, dtype=np.float32), np.array([positions], dtype=np.int64))


@lean
def _solve(game: Game, scratch: Scratch, memory: _Memory, ply: int) -> float:
    """Return the score of player 0 from stack[ply] under perfect play, or infinity if the memory is full."""
    stack, listed = scratch.stack, scratch.listed
    scratch.nodes[0] += 1
    if core.is_over(game, stack[ply]):
        core.scores(game, stack[ply], scratch.scores)
        return float(scratch.scores[0])
    key = core.key(game, stack[ply])
    place = _place(memory, key)
    if not np.isnan(memory.values[place]):
        return float(memory.values[place])
    sign = 1.0 if core.to_move(game, stack[ply]) == 0 else -1.0
    best = -np.inf  # for the player to move
    for i in range(core.legal_actions(game, stack[ply], listed[ply])):
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], listed[ply, i])
        value = _solve(game, scratch, memory, ply + 1)
        if np.isinf(value):
            return value
        best = max(best, sign * value)
        if best >= 1.0:
            break
    if memory.room[0] == 0:
        return _NO_ROOM
    memory.room[0] -= 1
    place = _place(memory, key)  # the search below may have taken the place found before
    memory.keys[place] = key
    memory.values[place] = sign * best
    return sign * best


@lean
def _place(memory: _Memory, key: np.uint64) -> int:
    """Return where a key is stored, or the free place where it belongs; half of all places are always free."""
    last: int = memory.keys.shape[0] - 1
    place = int(key) & last
    while not np.isnan(memory.values[place]) and memory.keys[place] != key:
        place = (place + 1) & last
    return place
