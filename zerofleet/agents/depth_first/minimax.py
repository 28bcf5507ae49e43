"""Minimax, alpha-beta and NegaScout over the rules of any game of two players: one search that can be paused.

    search = MinimaxSearch(game, state, deepest=5)
    search.begin(5, None)
    while not search.run(quota): ...         so many positions at a time; compiled, without the GIL
    search.found().best()

The recursion is a loop over frames, one for each ply, so that a search may stop after any number of positions and go on
later: that is how budgets of nodes and of time are kept. Values are those of the player to move (negamax); whoever moves
twice in a row keeps the sign. A finished position counts its scores, one at the horizon `games.core.estimate`.

    algorithm    skips                                                       source
    minimax      nothing                                                     Shannon 1950
    alpha_beta   what cannot change the value of the root, fail-soft         Knuth and Moore 1975; Fishburn 1983
    negascout    likewise; later moves are first shown not to be better      Reinefeld 1983

All three find the same values. NegaScout's re-search begins at the value that the scout has shown.
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
"""What must be exact: the value of the root; also which moves have it; the value of every move."""

_ALGORITHMS: tuple[Algorithm, ...] = ("minimax", "alpha_beta", "negascout")
_ROOTS: tuple[Root, ...] = ("value", "ties", "all")
_MINIMAX, _, _NEGASCOUT = range(3)
_VALUE, _TIES, _ = range(3)
_LOWEST, _HIGHEST = -1.0, 1.0  # bounds of a score: the full window
_COUNT, _TRIED, _MOVER, _SCOUTING, _FOLLOWS = range(5)
"""Of a frame: moves listed, searched; who moves; whether the window is null, whether the path is the expected line."""
_ALPHA, _BETA, _BEST = range(3)
_EXPECTED, _KILLER, _SECOND = range(3)
"""The move of an earlier search's best line, and the last two moves that cut at this ply."""
_HINTED = 1 << 60  # above any count of cuts
_NODES, _LEAVES, _OPEN, _PLY = range(4)
_NO_MOVE = -1


class _Plan(NamedTuple):
    """What `_run` is to do; numbers, as compiled code wants them."""

    depth: int
    """Plies from the root to the horizon."""
    algorithm: int
    root: int
    ordered: int
    """1: moves that cut before come first; 0: the order of `legal_actions`."""
    estimated: int
    """1: `games.core.estimate` at the horizon; 0: nothing."""


class _Tree(NamedTuple):
    """The path being searched, a frame for each ply, and what was learnt. D deepest horizon, row 0 is the root.

    Few arrays, for each costs every call from compiled code the time to pass its description.
    """

    stack: np.ndarray  # spec.state_dtype [D + 1, S]
    listed: np.ndarray  # int16 [D + 1, L], legal actions; those tried stand in front
    frames: np.ndarray  # int64 [D + 1, 5], columns _COUNT .. _FOLLOWS
    windows: np.ndarray  # float64 [D + 1, 3], columns _ALPHA, _BETA, _BEST, for the mover
    hints: np.ndarray  # int16 [D + 1, 3], moves likely to be good, columns _EXPECTED .. _SECOND, padded with _NO_MOVE
    line: np.ndarray  # int16 [D + 1, D + 1], row p: best line from ply p on, up to _NO_MOVE
    history: np.ndarray  # int64 [P, A], how much each move has cut
    values: np.ndarray  # float64 [L], of the root's moves, as listed
    scores: np.ndarray  # float32 [P]
    tally: np.ndarray  # int64 [4], entries _NODES .. _PLY


class MinimaxSearch:
    """One position, searched to one depth after another: see `zerofleet.agents.depth_first.deepening.SlicedSearch`."""

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
        """Make room for searches from a copy of `state`.

        Args:
            game: The rules, of a game of two players with perfect information.
            state: A position in which the game goes on.
            deepest: The largest depth that will be asked for.
            algorithm: What is skipped.
            root: What must be exact.
            ordered: Whether moves that cut before come first, rather than as `legal_actions` has them.
            estimated: Whether `games.core.estimate` counts at the horizon, rather than nothing.
        """
        self._game = game
        self._tree = _tree_for(game, state, deepest)
        self._plan = _Plan(0, _ALGORITHMS.index(algorithm), _ROOTS.index(root), int(ordered), int(estimated))

    @property
    def nodes(self) -> int:
        """Positions looked at, the root among them; one that is looked at again counts again."""
        return int(self._tree.tally[_NODES])

    @property
    def leaves(self) -> int:
        """Those among the positions that are finished or lie at the horizon."""
        return int(self._tree.tally[_LEAVES])

    @property
    def exhausted(self) -> bool:
        """Whether the game had ended in all leaves of this depth."""
        return bool(self._tree.tally[_OPEN] == 0)

    @property
    def line(self) -> list[int]:
        """The best line of play found at this depth, as far as it is known."""
        line: list[int] = self._tree.line[0].tolist()
        return line[: line.index(_NO_MOVE)] if _NO_MOVE in line else line

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search; what an earlier one learnt of good moves stays.

        Args:
            depth: Plies, 1 to `deepest`.
            order: The root's moves (int16 [n]) in the order in which they are to be tried; None: ascending.
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
        """Look at `quota` more positions, or a few more; return whether this depth is complete."""
        return bool(_run(self._game, self._tree, self._plan, quota))

    def found(self) -> SearchedMoves:
        """Return the root's moves searched so far, in the order in which they were tried."""
        tried = self._tree.frames[0, _TRIED]
        values = self._tree.values[:tried] + 0.0  # no negative zero
        return SearchedMoves(self._tree.listed[0, :tried].copy(), values, self.nodes)


def _tree_for(game: Game, state: State, depth: int) -> _Tree:
    """Return room for searches at most `depth` plies deep from a copy of `state`."""
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
    """Search on until about `quota` more positions have been looked at; return whether the search is complete.

    Args:
        game: The rules.
        tree: As `MinimaxSearch.begin` left it, or an earlier call with the same plan.
        plan: Its depth is within the room of the tree and at least 1.
        quota: Exceeded by the leaves of one position at most.
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
    """Return whether a frame has moves left that may matter."""
    if tree.frames[ply, _TRIED] == tree.frames[ply, _COUNT]:
        return False
    every = ply == 0 and plan.root != _VALUE
    return every or tree.windows[ply, _BEST] < tree.windows[ply, _BETA]


@lean
def _returned(tree: _Tree, ply: int) -> float:
    """Return what the frame below `ply` found, for the mover of `ply`."""
    value: float = tree.windows[ply + 1, _BEST]
    return value if tree.frames[ply, _MOVER] == tree.frames[ply + 1, _MOVER] else -value


@lean
def _descend(game: Game, tree: _Tree, plan: _Plan, ply: int) -> bool:
    """Play the next move of a frame; return whether the frame below has to be searched or has its value already."""
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
    """Open the frame below `ply` with a window for the mover of `ply`; return whether it has to be searched.

    One whose moves all lead to the horizon is done at once.
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
    """Return the value of a position all of whose moves lead to the horizon, for its mover; `high` or more is enough."""
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
    """Return what a finished position or one at the horizon is worth to `viewer`."""
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
    """Take the value of the move tried last, for the mover of `ply`, into the frame."""
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
            # a move as good as the best is above this bound, so its value comes back exact
            tree.windows[ply, _ALPHA] = max(np.nextafter(value, -np.inf), tree.windows[ply, _ALPHA])
    if value >= tree.windows[ply, _BETA] and plan.ordered == 1:
        _remember_cut(tree, plan, ply, action)


@lean
def _extend_line(tree: _Tree, ply: int, action: int) -> None:
    """Note that the best line of a frame begins with `action`."""
    tree.line[ply, ply] = action
    for i in range(ply + 1, tree.line.shape[1]):
        tree.line[ply, i] = tree.line[ply + 1, i]
        if tree.line[ply, i] == _NO_MOVE:
            return


@lean
def _remember_cut(tree: _Tree, plan: _Plan, ply: int, action: int) -> None:
    """Note that `action` cut: it may also do so in other positions of this ply, and in others of this player."""
    if tree.hints[ply, _KILLER] != action:
        tree.hints[ply, _SECOND] = tree.hints[ply, _KILLER]
        tree.hints[ply, _KILLER] = action
    remaining = plan.depth - ply
    tree.history[tree.frames[ply, _MOVER], action] += remaining * remaining


@lean
def _bring_forward(tree: _Tree, ply: int) -> None:
    """Exchange the next move of a frame for the most promising of those left."""
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
