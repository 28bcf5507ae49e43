"""The max^n agent: depth-first search for any number of players, each maximising their own score.

    max_n:3    max_n:100000nodes    max_n:50ms    max_n:50cpu_ms    budgets as for alpha_beta

The value of a position is a vector with one entry per player; the player to move maximises their own entry (Luckhardt and
Irani 1986). Positions at the horizon have the value of `games.core.estimate`. Below the root ties go to the first move; at
the root they are broken uniformly. With two players this is minimax.

Only the siblings of a move with the maximal score are cut: shallow pruning (Korf 1991), which prunes slightly more, needs
bounds on the sum of scores, which the game contract does not guarantee.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.positions import copy_state, legal, new_state
from zerofleet.agents.base import Choice, Evaluate, require_open
from zerofleet.agents.budget import Budget
from zerofleet.agents.depth_first.deepening import MAX_DEPTH, SearchedMoves, deepen, finish, read_budget
from zerofleet.agents.spelling import Spelling

__all__ = ["MaxNAgent", "MaxNSearch", "from_spelling"]

_MOST = 1.0  # maximal score
_COUNT, _TRIED, _MOVER = range(3)
_NODES, _OPEN, _PLY = range(3)


class _Tree(NamedTuple):
    """Path being searched, one frame per ply. D: deepest horizon; row 0 is the root."""

    stack: np.ndarray  # spec.state_dtype [D + 1, S]
    listed: np.ndarray  # int16 [D + 1, L], legal actions
    frames: np.ndarray  # int64 [D + 1, 3]: moves listed, moves searched, mover
    best: np.ndarray  # float32 [D + 1, P], score vector of the best move so far
    values: np.ndarray  # float32 [L, P], score vectors of the root's moves
    tally: np.ndarray  # int64 [3]: positions visited, open positions at the horizon, current ply


class MaxNAgent:
    """Searches within a budget; ties in the mover's own score are broken uniformly."""

    def __init__(self, game: Game, budget: Budget) -> None:
        """Create the agent with a budget in plies, nodes or of time; raises `InvalidRequest` without perfect information."""
        self._budget = budget
        self.name = f"max_n:{budget}"
        require_open(self.name, game)
        if budget.is_time:
            finish(MaxNSearch(game, new_state(game), deepest=1), 1)  # compiles, so that the first move has its full time

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        if self._budget.unit == "plies":
            searched = finish(MaxNSearch(game, state, deepest=self._budget.amount), self._budget.amount)
        else:
            searched = deepen(MaxNSearch(game, state, deepest=MAX_DEPTH), self._budget, deepest=MAX_DEPTH).moves
        return Choice(int(rng.choice(np.sort(searched.best()))), searched.nodes, float(searched.values.max()))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> MaxNAgent:
    """Return the agent written `max_n:3` or `max_n:50ms`."""
    spelling.refuse_options()
    return MaxNAgent(game, read_budget(spelling, processor_time=True))


class MaxNSearch:
    """Max^n search; see `zerofleet.agents.depth_first.deepening.SlicedSearch`."""

    def __init__(self, game: Game, state: State, *, deepest: int) -> None:
        """Allocate searches up to `deepest` plies from a copy of `state`, which is not over."""
        spec, rows = game.spec(), deepest + 1
        self._game = game
        self._depth = 0
        self._tree = _Tree(
            stack=np.zeros((rows, spec.state_size), dtype=spec.state_dtype),
            listed=np.empty((rows, spec.max_legal), dtype=np.int16),
            frames=np.zeros((rows, 3), dtype=np.int64),
            best=np.empty((rows, spec.num_players), dtype=np.float32),
            values=np.empty((spec.max_legal, spec.num_players), dtype=np.float32),
            tally=np.zeros(3, dtype=np.int64),
        )
        self._tree.stack[0] = state

    @property
    def nodes(self) -> int:
        """Number of visited positions, including the root."""
        return int(self._tree.tally[_NODES])

    @property
    def exhausted(self) -> bool:
        """Whether all leaves at this depth are terminal."""
        return bool(self._tree.tally[_OPEN] == 0)

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search `depth` plies deep with the root's moves in this order; None: ascending."""
        tree = self._tree
        moves = np.array(legal(self._game, tree.stack[0]), dtype=np.int16) if order is None else order
        tree.listed[0, : len(moves)] = moves
        tree.frames[0] = len(moves), 0, core.to_move(self._game, tree.stack[0])
        tree.best[0] = -np.inf
        tree.tally[_NODES] += 1
        tree.tally[_OPEN] = tree.tally[_PLY] = 0
        self._depth = depth

    def run(self, quota: int) -> bool:
        """Visit `quota` more positions; return whether this depth is complete."""
        return bool(_run(self._game, self._tree, self._depth, quota))

    def vectors(self) -> np.ndarray:
        """Return the score vectors of the root's moves searched so far, float32 [n, P], in search order."""
        return self._tree.values[: self._tree.frames[0, _TRIED]].copy()

    def found(self) -> SearchedMoves:
        """Return the root's moves searched so far, with their scores for the player to move."""
        own = self.vectors()[:, self._tree.frames[0, _MOVER]].astype(np.float64)
        return SearchedMoves(self._tree.listed[0, : len(own)].copy(), own, self.nodes)


@lean
def _run(game: Game, tree: _Tree, depth: int, quota: int) -> bool:
    """Continue until `quota` more positions are visited; return whether the search is complete."""
    ply = tree.tally[_PLY]
    stop_at = tree.tally[_NODES] + quota
    while True:
        if _has_more(tree, ply):
            if tree.tally[_NODES] >= stop_at:
                tree.tally[_PLY] = ply
                return False
            if _descend(game, tree, depth, ply):
                ply += 1
                continue
        elif ply == 0:
            tree.tally[_PLY] = 0
            return True
        else:
            ply -= 1
        _absorb(tree, ply)


@lean
def _has_more(tree: _Tree, ply: int) -> bool:
    """Return whether a frame has relevant moves left."""
    if tree.frames[ply, _TRIED] == tree.frames[ply, _COUNT]:
        return False
    return ply == 0 or tree.best[ply, tree.frames[ply, _MOVER]] < _MOST


@lean
def _descend(game: Game, tree: _Tree, depth: int, ply: int) -> bool:
    """Play the next move of a frame; return whether the child frame needs a search, rather than having its scores."""
    child = ply + 1
    state = tree.stack[child]
    copy_state(tree.stack[ply], state)
    core.play(game, state, tree.listed[ply, tree.frames[ply, _TRIED]])
    tree.tally[_NODES] += 1
    if core.is_over(game, state):
        core.scores(game, state, tree.best[child])
        return False
    if child == depth:
        tree.tally[_OPEN] += 1
        core.estimate(game, state, tree.best[child])
        return False
    tree.frames[child, _COUNT] = core.legal_actions(game, state, tree.listed[child])
    tree.frames[child, _TRIED] = 0
    tree.frames[child, _MOVER] = core.to_move(game, state)
    tree.best[child, tree.frames[child, _MOVER]] = -np.inf
    return True


@lean
def _absorb(tree: _Tree, ply: int) -> None:
    """Back up the child's scores into the frame at `ply` if they are the best for its mover."""
    mover, found = tree.frames[ply, _MOVER], tree.best[ply + 1]
    better = found[mover] > tree.best[ply, mover]
    for player in range(found.shape[0]):
        if ply == 0:
            tree.values[tree.frames[0, _TRIED], player] = found[player]
        if better:
            tree.best[ply, player] = found[player]
    tree.frames[ply, _TRIED] += 1
