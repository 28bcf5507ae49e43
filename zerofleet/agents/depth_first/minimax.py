"""Minimax, alpha-beta and NegaScout for any game of two players: a resumable search.

    search = MinimaxSearch(game, state, deepest=5)
    search.begin(5, None)
    while not search.run(quota): ...         visits about quota positions; compiled, without the GIL
    search.found().best()

The recursion is a loop over frames, one per ply, so that a search can stop after any number of positions and resume, as
budgets of nodes and time require. Values are for the player to move (negamax); the sign is kept when a player moves twice
in a row. Terminal positions have their scores, positions at the horizon `games.core.estimate`.

    algorithm    pruning                                                     source
    minimax      none                                                        Shannon 1950
    alpha_beta   subtrees that cannot change the root's value, fail-soft     Knuth and Moore 1975; Fishburn 1983
    negascout    the same, with null-window searches of later moves          Reinefeld 1983

All three find the same values. NegaScout's re-search starts from the value returned by the scout.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.positions import copy_state, legal
from zerofleet.agents.depth_first.deepening import SearchedMoves

__all__ = ["Algorithm", "MinimaxSearch", "Root"]

Algorithm: TypeAlias = Literal["minimax", "alpha_beta", "negascout"]
Root: TypeAlias = Literal["value", "ties", "all"]
"""Required exactness: the root's value; also the set of moves that reach it; the value of every move."""

_ALGORITHMS: tuple[Algorithm, ...] = ("minimax", "alpha_beta", "negascout")
_ROOTS: tuple[Root, ...] = ("value", "ties", "all")
_MINIMAX, _, _NEGASCOUT = range(3)
_VALUE, _TIES, _ = range(3)
_LOWEST, _HIGHEST = -1.0, 1.0  # bounds of a score: the full window
_COUNT, _TRIED, _MOVER, _SCOUTING, _FOLLOWS = range(5)
"""Columns of a frame: moves listed, moves searched, mover, whether the window is null, whether it is on the expected line."""
_ALPHA, _BETA, _BEST = range(3)
_EXPECTED, _KILLER, _SECOND = range(3)
"""Columns of the hints: the move of the previous principal variation and the two last cutoff moves (killers) of this ply."""
_HINTED = 1 << 60  # above any history score
_NODES, _LEAVES, _OPEN, _PLY = range(4)
_NO_MOVE = -1


class _Plan(NamedTuple):
    """Parameters of `_run`, as numbers for compiled code."""

    depth: int
    """Plies from the root to the horizon."""
    algorithm: int
    root: int
    ordered: int
    """1: earlier cutoff moves first; 0: the order of `legal_actions`."""
    estimated: int
    """1: `games.core.estimate` at the horizon; 0: zero."""


class _Tree(NamedTuple):
    """Path being searched, one frame per ply, and move-ordering statistics. D: deepest horizon; row 0 is the root.

    Few arrays, because compiled code passes the descriptor of each array in every call.
    """

    stack: np.ndarray  # spec.state_dtype [D + 1, S]
    listed: np.ndarray  # int16 [D + 1, L], legal actions, searched ones first
    frames: np.ndarray  # int64 [D + 1, 5], columns _COUNT .. _FOLLOWS
    windows: np.ndarray  # float64 [D + 1, 3], columns _ALPHA, _BETA, _BEST, for the mover
    hints: np.ndarray  # int16 [D + 1, 3], promising moves, columns _EXPECTED .. _SECOND, padded with _NO_MOVE
    line: np.ndarray  # int16 [D + 1, D + 1], row p: principal variation from ply p, terminated by _NO_MOVE
    history: np.ndarray  # int64 [P, A], history heuristic
    values: np.ndarray  # float64 [L], values of the root's moves, as listed
    scores: np.ndarray  # float32 [P]
    tally: np.ndarray  # int64 [4], entries _NODES .. _PLY


class MinimaxSearch:
    """Minimax search; see `zerofleet.agents.depth_first.deepening.SlicedSearch`."""

    def __init__(
        self,
        game: Game,
        state: State,
        *,
        deepest: int,
        algorithm: Algorithm = "alpha_beta",
        root: Root = "ties",
        ordered: bool = True,
        estimated: bool = True,
    ) -> None:
        """Allocate searches from a copy of `state`.

        Args:
            game: The rules, of a game of two players with perfect information.
            state: A position that is not over.
            deepest: Maximum depth of later searches.
            algorithm: Pruning algorithm.
            root: Required exactness at the root.
            ordered: Whether earlier cutoff moves come first, instead of the order of `legal_actions`.
            estimated: Whether positions at the horizon have the value of `games.core.estimate`, instead of 0.
        """
        self._game = game
        self._tree = _tree_for(game, state, deepest)
        self._plan = _Plan(0, _ALGORITHMS.index(algorithm), _ROOTS.index(root), int(ordered), int(estimated))

    @property
    def nodes(self) -> int:
        """Number of visited positions, including the root; repeated visits count."""
        return int(self._tree.tally[_NODES])

    @property
    def leaves(self) -> int:
        """Number of visited positions that are terminal or at the horizon."""
        return int(self._tree.tally[_LEAVES])

    @property
    def exhausted(self) -> bool:
        """Whether all leaves at this depth are terminal."""
        return bool(self._tree.tally[_OPEN] == 0)

    @property
    def line(self) -> list[int]:
        """Principal variation found at this depth, as far as known."""
        line: list[int] = self._tree.line[0].tolist()
        return line[: line.index(_NO_MOVE)] if _NO_MOVE in line else line

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search; move-ordering statistics of earlier searches are kept.

        Args:
            depth: Plies, 1 to `deepest`.
            order: The root's moves (int16 [n]) in search order; None: ascending.
        """
        tree = self._tree
        moves = np.array(legal(self._game, tree.stack[0]), dtype=np.int16) if order is None else order
        tree.listed[0, : len(moves)] = moves
        tree.frames[0] = len(moves), 0, core.to_move(self._game, tree.stack[0]), 0, 1
        tree.windows[0] = _LOWEST, _HIGHEST, -np.inf
        tree.hints[:, _EXPECTED] = tree.line[0]
        tree.tally[_NODES] += 1
        tree.tally[_OPEN] = tree.tally[_PLY] = 0
        self._plan = self._plan._replace(depth=depth)

    def run(self, quota: int) -> bool:
        """Visit at least `quota` more positions; return whether this depth is complete."""
        return bool(_run(self._game, self._tree, self._plan, quota))

    def found(self) -> SearchedMoves:
        """Return the root's moves searched so far, in search order."""
        tried = self._tree.frames[0, _TRIED]
        values = self._tree.values[:tried] + 0.0  # no negative zero
        return SearchedMoves(self._tree.listed[0, :tried].copy(), values, self.nodes)


def _tree_for(game: Game, state: State, depth: int) -> _Tree:
    """Allocate a tree for searches up to `depth` plies from a copy of `state`."""
    spec, rows = game.spec(), depth + 1
    stack = np.zeros((rows, spec.state_size), dtype=spec.state_dtype)
    stack[0] = state
    return _Tree(
        stack=stack,
        listed=np.empty((rows, spec.max_legal), dtype=np.int16),
        frames=np.zeros((rows, 5), dtype=np.int64),
        windows=np.empty((rows, 3)),
        hints=np.full((rows, 3), _NO_MOVE, dtype=np.int16),
        line=np.full((rows, rows), _NO_MOVE, dtype=np.int16),
        history=np.zeros((spec.num_players, spec.num_actions), dtype=np.int64),
        values=np.empty(spec.max_legal),
        scores=np.empty(spec.num_players, dtype=np.float32),
        tally=np.zeros(4, dtype=np.int64),
    )


@lean
def _run(game: Game, tree: _Tree, plan: _Plan, quota: int) -> bool:
    """Continue until about `quota` more positions are visited; return whether the search is complete.

    Args:
        game: The rules.
        tree: State left by `MinimaxSearch.begin` or by an earlier call with the same plan.
        plan: Parameters; the depth is at least 1 and within the capacity of the tree.
        quota: Number of positions, exceeded by at most the leaves of one position.
    """
    ply = tree.tally[_PLY]
    stop_at = tree.tally[_NODES] + quota
    while True:
        if _has_more(tree, plan, ply):
            if tree.tally[_NODES] >= stop_at:
                tree.tally[_PLY] = ply
                return False
            if _descend(game, tree, plan, ply):
                ply += 1
                continue
        elif ply == 0:
            tree.tally[_PLY] = 0
            return True
        else:
            ply -= 1
        value = _returned(tree, ply)
        if tree.frames[ply + 1, _SCOUTING] and tree.windows[ply, _ALPHA] < value < tree.windows[ply, _BETA]:
            tree.tally[_NODES] += 1
            tree.frames[ply + 1, _SCOUTING] = 0
            if _enter(game, tree, plan, ply, value, tree.windows[ply, _BETA]):
                ply += 1
                continue
            value = max(value, _returned(tree, ply))
        _absorb(tree, plan, ply, value)


@lean
def _has_more(tree: _Tree, plan: _Plan, ply: int) -> bool:
    """Return whether a frame has relevant moves left."""
    if tree.frames[ply, _TRIED] == tree.frames[ply, _COUNT]:
        return False
    every = ply == 0 and plan.root != _VALUE
    return every or tree.windows[ply, _BEST] < tree.windows[ply, _BETA]


@lean
def _returned(tree: _Tree, ply: int) -> float:
    """Return the value of the child frame, for the mover of `ply`."""
    value: float = tree.windows[ply + 1, _BEST]
    return value if tree.frames[ply, _MOVER] == tree.frames[ply + 1, _MOVER] else -value


@lean
def _descend(game: Game, tree: _Tree, plan: _Plan, ply: int) -> bool:
    """Play the next move of a frame; return whether the child frame needs a search, rather than having its value."""
    stack, child = tree.stack, ply + 1
    if plan.ordered == 1 and ply > 0:
        _bring_forward(tree, ply)
    copy_state(stack[ply], stack[child])
    core.play(game, stack[child], tree.listed[ply, tree.frames[ply, _TRIED]])
    tree.tally[_NODES] += 1
    tree.line[child, child] = _NO_MOVE
    tree.frames[child, _SCOUTING] = 0
    if core.is_over(game, stack[child]) or child == plan.depth:
        tree.frames[child, _MOVER] = tree.frames[ply, _MOVER]
        tree.windows[child, _BEST] = _leaf_value(game, tree, plan, child, tree.frames[ply, _MOVER])
        return False
    low, high = tree.windows[ply, _ALPHA], tree.windows[ply, _BETA]
    if plan.algorithm == _NEGASCOUT and tree.frames[ply, _TRIED] > 0:
        beyond = np.nextafter(low, np.inf)
        tree.frames[child, _SCOUTING] = beyond < high
        high = min(beyond, high)
    return _enter(game, tree, plan, ply, low, high)


@lean
def _enter(game: Game, tree: _Tree, plan: _Plan, ply: int, low: float, high: float) -> bool:
    """Open the child frame with a window for the mover of `ply`; return whether it needs a search.

    A child one ply above the horizon is evaluated at once.
    """
    child = ply + 1
    mover = core.to_move(game, tree.stack[child])
    action = tree.listed[ply, tree.frames[ply, _TRIED]]
    tree.frames[child, _COUNT] = core.legal_actions(game, tree.stack[child], tree.listed[child])
    tree.frames[child, _TRIED] = 0
    tree.frames[child, _FOLLOWS] = tree.frames[ply, _FOLLOWS] == 1 and tree.hints[ply, _EXPECTED] == action
    if mover != tree.frames[ply, _MOVER]:
        low, high = -high, -low
    if plan.algorithm == _MINIMAX:
        low, high = -np.inf, np.inf
    tree.frames[child, _MOVER] = mover
    tree.windows[child, _ALPHA] = low
    tree.windows[child, _BETA] = high
    tree.windows[child, _BEST] = -np.inf
    if child + 1 < plan.depth:
        return True
    tree.windows[child, _BEST] = _best_leaf(game, tree, plan, child, high)
    return False


@lean
def _best_leaf(game: Game, tree: _Tree, plan: _Plan, ply: int, high: float) -> float:
    """Return the value of a position one ply above the horizon for its mover; stops at `high` or more."""
    stack, listed, mover = tree.stack, tree.listed[ply], tree.frames[ply, _MOVER]
    best, looked_at = -np.inf, 0
    for i in range(tree.frames[ply, _COUNT]):
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], listed[i])
        looked_at += 1
        value = _leaf_value(game, tree, plan, ply + 1, mover)
        if value > best:
            best = value
            tree.line[ply, ply] = listed[i]
            if best >= high:
                break
    tree.line[ply, ply + 1] = _NO_MOVE
    tree.tally[_NODES] += looked_at
    return best


@lean
def _leaf_value(game: Game, tree: _Tree, plan: _Plan, ply: int, viewer: int) -> float:
    """Return the value of a terminal position or one at the horizon for `viewer`."""
    tree.tally[_LEAVES] += 1
    if core.is_over(game, tree.stack[ply]):
        core.scores(game, tree.stack[ply], tree.scores)
        return float(tree.scores[viewer])
    tree.tally[_OPEN] += 1
    if plan.estimated == 0:
        return 0.0
    core.estimate(game, tree.stack[ply], tree.scores)
    return float(tree.scores[viewer])


@lean
def _absorb(tree: _Tree, plan: _Plan, ply: int, value: float) -> None:
    """Back up the value of the last move, for the mover of `ply`, into the frame."""
    action = tree.listed[ply, tree.frames[ply, _TRIED]]
    if ply == 0:
        tree.values[tree.frames[0, _TRIED]] = value
    tree.frames[ply, _TRIED] += 1
    if value <= tree.windows[ply, _BEST]:
        return
    tree.windows[ply, _BEST] = value
    if value > tree.windows[ply, _ALPHA] or ply == 0:
        _extend_line(tree, ply, action)
        if ply > 0 or plan.root == _VALUE:
            tree.windows[ply, _ALPHA] = max(value, tree.windows[ply, _ALPHA])
        elif plan.root == _TIES:
            # a move equal to the best exceeds this bound, so its value is exact
            tree.windows[ply, _ALPHA] = max(np.nextafter(value, -np.inf), tree.windows[ply, _ALPHA])
    if value >= tree.windows[ply, _BETA] and plan.ordered == 1:
        _remember_cut(tree, plan, ply, action)


@lean
def _extend_line(tree: _Tree, ply: int, action: int) -> None:
    """Store `action` and the child's line as the principal variation of a frame."""
    tree.line[ply, ply] = action
    for i in range(ply + 1, tree.line.shape[1]):
        tree.line[ply, i] = tree.line[ply + 1, i]
        if tree.line[ply, i] == _NO_MOVE:
            return


@lean
def _remember_cut(tree: _Tree, plan: _Plan, ply: int, action: int) -> None:
    """Record `action` as a killer move of this ply and in the history of its player."""
    if tree.hints[ply, _KILLER] != action:
        tree.hints[ply, _SECOND] = tree.hints[ply, _KILLER]
        tree.hints[ply, _KILLER] = action
    remaining = plan.depth - ply
    tree.history[tree.frames[ply, _MOVER], action] += remaining * remaining


@lean
def _bring_forward(tree: _Tree, ply: int) -> None:
    """Swap the most promising remaining move of a frame into the next place."""
    listed, hints, cuts = tree.listed[ply], tree.hints[ply], tree.history[tree.frames[ply, _MOVER]]
    first = tree.frames[ply, _TRIED]
    chosen, most = first, np.int64(-1)
    for i in range(first, tree.frames[ply, _COUNT]):
        promise = cuts[listed[i]]
        if listed[i] == hints[_EXPECTED] and tree.frames[ply, _FOLLOWS] == 1:
            promise += 4 * _HINTED
        elif listed[i] == hints[_KILLER]:
            promise += 2 * _HINTED
        elif listed[i] == hints[_SECOND]:
            promise += _HINTED
        if promise > most:
            chosen, most = i, promise
    listed[first], listed[chosen] = listed[chosen], listed[first]
