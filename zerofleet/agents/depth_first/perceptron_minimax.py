"""Alpha-beta search with the values of a perceptron in this process, as one compiled loop.

It visits the positions that `zerofleet.agents.depth_first.network_minimax` visits, in the same order, and finds the same
values, without an evaluator. The recursion is a loop over frames, one per ply: it can stop after any number of positions.

    ply 0   root           successors in row 0
    ply 1   a successor    its successors in row 1

Axes: D deepest horizon in plies, L maximum legal actions, S state entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import compiled, lean
from games.core import Game, State
from zerofleet.agents.depth_first.deepening import SearchedMoves
from zerofleet.agents.perceptron_values import Successors, evaluate_successors, new_successors, play_successors
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron

__all__ = ["PerceptronSearch"]

_LOWEST, _HIGHEST = -1.0, 1.0
_COUNT, _TRIED = range(2)
_ALPHA, _BETA, _BEST = range(3)
_NODES, _EVALUATED, _OPEN, _PLY = range(4)


class _Tree(NamedTuple):
    """Path being searched: row p holds the frame of the position p plies from the root."""

    root: np.ndarray  # spec.state_dtype [S]
    listed: np.ndarray  # int16 [D, L], legal actions, ascending
    order: np.ndarray  # int64 [D, L], places in search order
    frames: np.ndarray  # int64 [D, 2], columns _COUNT and _TRIED
    windows: np.ndarray  # float64 [D, 3], columns _ALPHA, _BETA, _BEST, for the mover
    values: np.ndarray  # float64 [L], values of the root's moves, in search order
    tally: np.ndarray  # int64 [4], entries _NODES .. _PLY


class _Plan(NamedTuple):
    """Parameters of `_run`."""

    depth: int
    """Plies from the root to the horizon."""
    ordered: bool
    """Whether moves are searched by descending value."""


class PerceptronSearch:
    """Alpha-beta search with a perceptron; see `zerofleet.agents.depth_first.deepening.SlicedSearch`."""

    def __init__(self, game: Game, state: State, network: BitPerceptron, *, deepest: int, ordered: bool = True) -> None:
        """Allocate searches from a copy of `state`.

        Args:
            game: The rules, of a game of two players with perfect information.
            state: A position that is not over.
            network: Network of the values.
            deepest: Maximum depth of later searches.
            ordered: Whether moves are searched by descending value, instead of the order of `legal_actions`.
        """
        rows = deepest, game.spec().max_legal
        self._game = game
        self._plan = _Plan(0, ordered)
        self._successors = new_successors(game, network, deepest)
        self._tree = _Tree(
            root=state.copy(),
            listed=np.zeros(rows, dtype=np.int16),
            order=np.zeros(rows, dtype=np.int64),
            frames=np.zeros((deepest, 2), dtype=np.int64),
            windows=np.zeros((deepest, 3)),
            values=np.zeros(rows[1]),
            tally=np.array([1, 0, 0, 0], dtype=np.int64),
        )

    @property
    def nodes(self) -> int:
        """Number of successors of searched positions, plus the root."""
        return int(self._tree.tally[_NODES])

    @property
    def evaluated(self) -> int:
        """Number of evaluations by the network; repeated ones count."""
        return int(self._tree.tally[_EVALUATED])

    @property
    def exhausted(self) -> bool:
        """Whether all leaves at this depth are terminal."""
        return bool(self._tree.tally[_OPEN] == 0)

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search `depth` plies deep; None: the network orders the moves of the root too."""
        tree = self._tree
        self._plan = self._plan._replace(depth=depth)
        tree.tally[_OPEN] = tree.tally[_PLY] = 0
        _enter(self._game, tree, self._successors, self._plan, 0)
        tree.windows[0] = _LOWEST, _HIGHEST, _LOWEST
        if order is not None:
            count = tree.frames[0, _COUNT]
            tree.order[0, :count] = np.searchsorted(tree.listed[0, :count], order)

    def run(self, quota: int) -> bool:
        """Visit at least `quota` more positions; return whether this depth is complete."""
        return bool(_run(self._game, self._tree, self._successors, self._plan, quota))

    def found(self) -> SearchedMoves:
        """Return the root's moves searched so far, in search order."""
        tree = self._tree
        tried = tree.frames[0, _TRIED]
        values = tree.values[:tried] + 0.0  # no negative zero
        return SearchedMoves(tree.listed[0, tree.order[0, :tried]], values, self.nodes)


@compiled
def _run(game: Game, tree: _Tree, successors: Successors, plan: _Plan, quota: int) -> bool:
    """Continue until at least `quota` more positions are visited; return whether the search is complete."""
    tally, frames, windows = tree.tally, tree.frames, tree.windows
    stop_at = tally[_NODES] + quota
    ply = tally[_PLY]
    while True:
        if frames[ply, _TRIED] == frames[ply, _COUNT] or (ply > 0 and windows[ply, _ALPHA] >= windows[ply, _BETA]):
            if ply == 0:
                tally[_PLY] = 0
                return True
            value = windows[ply, _BEST]
            ply -= 1
            place = tree.order[ply, frames[ply, _TRIED]]
            _absorb(tree, ply, value if successors.same[ply, place] else -value)
            continue
        place = tree.order[ply, frames[ply, _TRIED]]
        if successors.over[ply, place] or ply + 1 == plan.depth:
            tally[_OPEN] += not successors.over[ply, place]
            _absorb(tree, ply, successors.values[ply, place])
            continue
        if tally[_NODES] >= stop_at:
            tally[_PLY] = ply
            return False
        ply += 1
        _enter(game, tree, successors, plan, ply)
        low, high = windows[ply - 1, _ALPHA], windows[ply - 1, _BETA]
        if not successors.same[ply - 1, place]:
            low, high = -high, -low
        windows[ply, _ALPHA] = low
        windows[ply, _BETA] = high
        windows[ply, _BEST] = -np.inf


@compiled
def _enter(game: Game, tree: _Tree, successors: Successors, plan: _Plan, ply: int) -> None:
    """List the moves of the position at `ply` in search order, with the values that the search needs."""
    state = tree.root if ply == 0 else successors.states[ply - 1, tree.order[ply - 1, tree.frames[ply - 1, _TRIED]]]
    count = core.legal_actions(game, state, tree.listed[ply])
    play_successors(game, state, tree.listed[ply, :count], ply, successors)
    tree.tally[_NODES] += count
    if plan.ordered or ply + 1 == plan.depth:
        tree.tally[_EVALUATED] += evaluate_successors(game, count, ply, successors)
    tree.frames[ply, _COUNT] = count
    tree.frames[ply, _TRIED] = 0
    _sort(successors.values[ply], tree.order[ply], count, plan.ordered)


@lean
def _sort(values: np.ndarray, order: np.ndarray, count: int, ordered: bool) -> None:
    """Write the places 0 .. count - 1 into `order`, by descending value if `ordered`; equal ones keep their order."""
    for i in range(count):
        j = i
        while ordered and j > 0 and values[order[j - 1]] < values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@lean
def _absorb(tree: _Tree, ply: int, value: float) -> None:
    """Back up the value of the move searched last, for the mover of `ply`."""
    tried = tree.frames[ply, _TRIED]
    tree.frames[ply, _TRIED] = tried + 1
    if ply == 0:
        tree.values[tried] = value
        tree.windows[0, _ALPHA] = max(tree.windows[0, _ALPHA], np.nextafter(value, -np.inf))  # ties stay exact
        return
    tree.windows[ply, _BEST] = max(tree.windows[ply, _BEST], value)
    tree.windows[ply, _ALPHA] = max(tree.windows[ply, _ALPHA], tree.windows[ply, _BEST])
