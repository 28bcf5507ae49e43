"""Perfect players: for games small enough to store every relevant position, and for Connect Four on 6 x 7.

`PerfectAgent` solves positions by search to the end and stores their values by state. Once a winning move is found the other
moves are skipped, so parts of the game stay unsolved until a position there is requested.

`SolverAgent` uses the Connect Four solver. By default all moves that keep the value (won, drawn or lost) are equally good, as
for the agent above: wins are certain but not the quickest. With `prefer=score` it wins as early and loses as late as
possible.

`require_small` refuses a game without compiling or searching anything: by the number of positions that the game states
(`max_positions`), or by the size of its tree.
"""

from __future__ import annotations

import math
import threading
from decimal import Decimal
from typing import Literal, NamedTuple, cast

import numpy as np

from games import core
from games.compiled import lean
from games.connect_four import ConnectFour
from games.core import Game, State
from games.kit.randomness import mix64
from games.positions import copy_state, legal, new_state, titled
from zerofleet.agents.base import Choice, Evaluate, require_duel
from zerofleet.agents.depth_first.alpha_beta import SearchedMoves
from zerofleet.agents.exact.solver import Solver, fits, shipped_book
from zerofleet.agents.scratch import Scratch, scratch_for
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_POSITIONS", "PerfectAgent", "PerfectOptions", "SolverAgent", "from_spelling", "require_small"]

MAX_POSITIONS = 1 << 22
"""Maximal number of stored positions, about 100 MB."""

_FIRST_POSITIONS = 1 << 14
_NO_ROOM = np.inf


class _Frames(NamedTuple):
    """Progress of a search, by ply from its root. D: depth in plies."""

    words: np.ndarray  # the states as unsigned words [D + 1, S], in the memory of the scratch
    hashes: np.ndarray  # uint64 [D + 1], of the states
    signs: np.ndarray  # float64 [D + 1]: 1.0 where player 0 moves, else -1.0
    best: np.ndarray  # float64 [D + 1], best score so far for the player to move
    moves: np.ndarray  # int64 [D + 1]
    played: np.ndarray  # int64 [D + 1], of these moves


class _Memory(NamedTuple):
    """Hash table with open addressing and linear probing from the hash of a state modulo the capacity."""

    hashes: np.ndarray  # uint64 [capacity], a power of two
    values: np.ndarray  # float32 [capacity], score of player 0; nan: free
    room: np.ndarray  # int64 [1], remaining number of positions


class PerfectAgent:
    """Chooses uniformly among the moves of the best score; for games that pass `require_small`."""

    name = "perfect"

    def __init__(self, game: Game, *, max_positions: int = MAX_POSITIONS) -> None:
        """Solve the game from its start; raises `InvalidRequest` above `max_positions`."""
        require_duel(self.name, game)
        self._game = game
        self._max_positions = max_positions
        self._positions = min(_FIRST_POSITIONS, max_positions)
        self._memory = _empty_memory(self._positions)
        self._lock = threading.Lock()
        self.value = float(self.analyse(new_state(game)).values.max())
        """Score of player 0 from the start under perfect play."""

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        searched = self.analyse(state)
        return Choice(int(rng.choice(searched.best())), searched.nodes, float(searched.values.max()))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        searched = self.analyse(state)
        return _evenly(searched.values == searched.values.max())

    def analyse(self, state: State) -> SearchedMoves:
        """Return every legal move with its exact value; raises `InvalidRequest` if the memory does not suffice."""
        with self._lock:
            while (searched := self._searched(state)) is None:
                self._grow()
        return searched

    def _searched(self, state: State) -> SearchedMoves | None:
        """Return the moves with their values, or None if the memory is full."""
        plies = self._game.spec().max_plies
        scratch = scratch_for(self._game, state, plies)
        numbers, counts = np.empty((2, plies + 1)), np.empty((2, plies + 1), dtype=np.int64)
        stack = scratch.stack
        words, hashes = stack.view(f"u{stack.itemsize}"), np.empty(plies + 1, dtype=np.uint64)
        frames = _Frames(words, hashes, *numbers, *counts)
        sign = 1.0 if core.to_move(self._game, stack[0]) == 0 else -1.0
        actions = legal(self._game, stack[0])
        values = np.empty(len(actions))
        for i, action in enumerate(actions):
            stack[1] = stack[0]
            core.play(self._game, stack[1], action)
            values[i] = sign * _solve(self._game, scratch, frames, self._memory)
            if np.isinf(values[i]):
                return None
        return SearchedMoves(np.array(actions, dtype=np.int16), values, int(scratch.nodes[0]))

    def _grow(self) -> None:
        """Restart with an empty memory of twice the size."""
        if self._positions == self._max_positions:
            raise InvalidRequest(
                f"{titled(self._game)} is too large for perfect play: more than {self._max_positions} relevant positions; "
                "use alpha_beta:DEPTH, such as alpha_beta:5"
            )
        self._positions = min(2 * self._positions, self._max_positions)
        self._memory = _empty_memory(self._positions)


class PerfectOptions(AgentOptions):
    """Options of `perfect`."""

    prefer: Literal["value", "score"] = "value"
    """`value`: all moves that keep the value; `score`: only the earliest wins and the latest losses, Connect Four only."""


class SolverAgent:
    """Plays Connect Four perfectly, on boards that fit the solver; ties are broken uniformly."""

    def __init__(self, game: ConnectFour, *, prefer: Literal["value", "score"] = "value") -> None:
        """Create the agent for a board of at most 64 bits; raises `InvalidRequest`, as does `choose` for hard positions."""
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
            f"which solves {game.spec().name} to win, draw or loss"
        )
    require_small(game)
    return PerfectAgent(game)


def require_small(game: Game) -> None:
    """Raise `InvalidRequest` at once unless a table of `MAX_POSITIONS` is known to hold the whole game.

    Known are games whose optional property `max_positions`, an upper bound on their number of positions, is at most that, and
    games with a tree no larger: `max_legal` to the power of `max_plies`.
    """
    require_duel(PerfectAgent.name, game)
    spec, stated = game.spec(), getattr(game, "max_positions", None)
    is_small_tree = (spec.max_plies + 1) * math.log2(max(spec.max_legal, 2)) <= math.log2(MAX_POSITIONS)
    if is_small_tree or (stated is not None and stated <= MAX_POSITIONS):
        return
    unknown = "it states no bound on its positions (max_positions, docs/own_game.md)"
    found = unknown if stated is None else f"up to {Decimal(stated):.1e} positions"
    raise InvalidRequest(
        f"{titled(game)} is too large for perfect play: {found}, and a table holds {MAX_POSITIONS:,}; use alpha_beta:DEPTH, "
        "such as alpha_beta:5, or a model"
    )


def _evenly(good: np.ndarray) -> np.ndarray:
    """Return a uniform distribution, float64 [n], over the moves that are `good` (bool [n])."""
    return good / np.count_nonzero(good)


def _empty_memory(positions: int) -> _Memory:
    capacity = 1 << (2 * positions - 1).bit_length()  # a power of two, at most half full
    hashes = np.zeros(capacity, dtype=np.uint64)
    return _Memory(hashes, np.full(capacity, np.nan, dtype=np.float32), np.array([positions], dtype=np.int64))


@lean
def _solve(game: Game, scratch: Scratch, frames: _Frames, memory: _Memory) -> float:
    """Return the score of player 0 from stack[1] under perfect play, or infinity if the memory is full.

    A loop over frames, one per ply, and not a recursion: a long game would exhaust the stack of its thread.
    """
    stack, listed = scratch.stack, scratch.listed
    ply, value = 1, _entered(game, scratch, frames, memory, 1)
    while True:
        if np.isnan(value):  # moves are left
            copy_state(stack[ply], stack[ply + 1])
            core.play(game, stack[ply + 1], listed[ply, frames.played[ply]])
            frames.played[ply] += 1
            ply += 1
            value = _entered(game, scratch, frames, memory, ply)
            continue
        if ply == 1:
            return value
        ply -= 1
        sign = frames.signs[ply]
        frames.best[ply] = max(frames.best[ply], sign * value)
        if frames.best[ply] < 1.0 and frames.played[ply] < frames.moves[ply]:
            value = np.nan
            continue
        value = sign * frames.best[ply]
        if memory.room[0] == 0:
            return _NO_ROOM
        memory.room[0] -= 1
        place = _place(memory, frames.hashes[ply])
        memory.hashes[place] = frames.hashes[ply]
        memory.values[place] = value


@lean
def _entered(game: Game, scratch: Scratch, frames: _Frames, memory: _Memory, ply: int) -> float:
    """Return the score of player 0 from stack[ply] where it is over or stored, else prepare the frame and return nan."""
    state = scratch.stack[ply]
    scratch.nodes[0] += 1
    if core.is_over(game, state):
        core.scores(game, state, scratch.scores)
        return float(scratch.scores[0])
    hashed = np.uint64(1)  # of the whole state, since a key may leave out the plies, which decide where a limit ends the game
    for i in range(state.size):
        hashed = mix64(hashed ^ np.uint64(frames.words[ply, i]))
    stored = float(memory.values[_place(memory, hashed)])
    if np.isnan(stored):
        frames.hashes[ply] = hashed
        frames.signs[ply] = 1.0 if core.to_move(game, state) == 0 else -1.0
        frames.best[ply] = -np.inf
        frames.moves[ply] = core.legal_actions(game, state, scratch.listed[ply])
        frames.played[ply] = 0
    return stored


@lean
def _place(memory: _Memory, hashed: np.uint64) -> int:
    """Return the place of a hash, or the free place for it; at least half of all places are free."""
    last: int = memory.hashes.shape[0] - 1
    place = int(hashed) & last
    while not np.isnan(memory.values[place]) and memory.hashes[place] != hashed:
        place = (place + 1) & last
    return place
