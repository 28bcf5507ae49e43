"""Alpha-beta search with network values, at the horizon and for move ordering.

The children of a position are evaluated together: at the horizon they are the leaves, elsewhere their values order the moves.
Their own children join the same batch while there is room, since latency per request dominates. Terminal positions have
their scores; network values are clipped below those of proven results. Evaluations are cached for the current move.

The recursion is a chain of generators that yield before each batch, so that a search can be interrupted.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.positions import copy_state
from zerofleet.agents.base import SUREST, Evaluate
from zerofleet.agents.depth_first.deepening import SearchedMoves
from zerofleet.evaluators.base import LeafBatch, ModelVersion

__all__ = ["NetworkSearch"]

_LOWEST, _HIGHEST = -1.0, 1.0
_PADDING = -1
_MOST_ROWS = 256  # per batch; some rows are speculative, but large batches take little longer than small ones


class _Children(NamedTuple):
    """Successors of a position. N moves."""

    actions: np.ndarray  # int16 [N], ascending
    states: np.ndarray  # spec.state_dtype [N, S]
    over: np.ndarray  # bool [N]
    same: np.ndarray  # bool [N], whether the same player moves again
    values: np.ndarray  # float64 [N], for the player who moves to them; nan if not yet evaluated
    states_packed: np.ndarray  # uint8 [N, packed_bytes], for the player to move there
    legal: np.ndarray  # int16 [N, L], padded with -1


@dataclass(slots=True)
class _Root:
    """Root of the depth being searched."""

    depth: int
    actions: np.ndarray  # int16 [n], in search order
    values: list[float]


class NetworkSearch:
    """Alpha-beta search with a network; see `zerofleet.agents.depth_first.deepening.SlicedSearch`."""

    def __init__(self, game: Game, state: State, evaluate: Evaluate, *, version: ModelVersion, ordered: bool = True) -> None:
        """Create a search from a copy of `state`.

        Args:
            game: The rules, of a game of two players with perfect information.
            state: A position that is not over.
            evaluate: Evaluator.
            version: Model version.
            ordered: Whether moves are searched by descending value, instead of the order of `legal_actions`.
        """
        self._game = game
        self._state = state.copy()
        self._evaluate = evaluate
        self._version = version
        self._ordered = ordered
        self._known: dict[bytes, _Children] = {}  # by state: keys may leave out plies and repetitions, which end games
        self._root = _Root(0, np.empty(0, dtype=np.int16), [])
        self._steps: Generator[None] = self._search_root(None)
        self._open = 0
        self.nodes = 1
        """Number of successors of searched positions, plus the root."""
        self.evaluated = 0
        """Number of positions evaluated by the network."""

    @property
    def exhausted(self) -> bool:
        """Whether all leaves at this depth are terminal."""
        return self._open == 0

    def load_code(self) -> None:
        """Load or compile the code of the search, without an evaluation."""
        self._follow(self._state)

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Prepare a search `depth` plies deep; None: the network orders the moves of the root too."""
        self._open = 0
        self._root = _Root(depth, np.empty(0, dtype=np.int16), [])
        self._steps = self._search_root(order)

    def run(self, quota: int) -> bool:
        """Visit at least `quota` more positions; return whether this depth is complete.

        Propagates the evaluator's exceptions.
        """
        stop_at = self.nodes + quota
        return all(self.nodes < stop_at for _ in self._steps)

    def found(self) -> SearchedMoves:
        """Return the root's moves searched so far, in search order."""
        values = np.array(self._root.values) + 0.0  # no negative zero
        return SearchedMoves(self._root.actions[: len(values)], values, self.nodes)

    def _search_root(self, order: np.ndarray | None) -> Generator[None]:
        """Compute the exact values of the root's best moves, and bounds of the others."""
        root = self._root
        children = yield from self._expand(self._state, root.depth)
        places = self._order(children) if order is None else np.searchsorted(children.actions, order)
        root.actions = children.actions[places]
        alpha = _LOWEST
        for place in places:
            value = yield from self._value(children, int(place), root.depth - 1, alpha, _HIGHEST)
            root.values.append(value)
            alpha = max(alpha, float(np.nextafter(value, -np.inf)))  # values of tied moves stay exact

    def _search(self, state: State, plies: int, alpha: float, beta: float) -> Generator[None, None, float]:
        """Return the value of a position for its mover, `plies` from the horizon; between alpha and beta it is exact."""
        children = yield from self._expand(state, plies)
        best = -np.inf
        for place in self._order(children):
            value = yield from self._value(children, int(place), plies - 1, alpha, beta)
            best = max(best, value)
            alpha = max(alpha, best)
            if alpha >= beta:
                break
        return best

    def _value(self, children: _Children, place: int, plies: int, alpha: float, beta: float) -> Generator[None, None, float]:
        """Return the value of a child for the player who moves to it, `plies` from the horizon."""
        if children.over[place] or plies == 0:
            self._open += not children.over[place]
            return float(children.values[place])
        if children.same[place]:
            return (yield from self._search(children.states[place], plies, alpha, beta))
        return -(yield from self._search(children.states[place], plies, -beta, -alpha))

    def _order(self, children: _Children) -> np.ndarray:
        """Return the indices of the moves in search order."""
        if not self._ordered:
            return np.arange(len(children.actions))
        return np.argsort(-children.values, kind="stable")

    def _expand(self, state: State, plies: int) -> Generator[None, None, _Children]:
        """Return the successors of a position, with the values that a search `plies` from the horizon needs."""
        children = self._follow(state)
        self.nodes += len(children.actions)
        waiting = self._waiting(children, plies)
        if waiting:
            yield
            self._ask(waiting)
        return children

    def _waiting(self, children: _Children, plies: int) -> list[_Children]:
        """Return the families to evaluate: the children, and the families of the best children that fit into a batch."""
        families = [children] if self._ordered or plies == 1 else []
        if plies == 2 or (plies > 2 and self._ordered):
            rows = len(children.actions)
            for place in self._order(children):
                if not children.over[place]:
                    family = self._follow(children.states[place])
                    rows += len(family.actions)
                    if rows > _MOST_ROWS:
                        break
                    families.append(family)
        return [family for family in families if np.isnan(family.values).any()]

    def _ask(self, families: list[_Children]) -> None:
        """Evaluate all positions without a value in one batch."""
        places = [np.flatnonzero(np.isnan(family.values)) for family in families]
        batch = LeafBatch(
            np.concatenate([family.states_packed[where] for family, where in zip(families, places, strict=True)]),
            np.concatenate([family.legal[where] for family, where in zip(families, places, strict=True)]),
        )
        own = self._evaluate(batch, self._version).value[:, 0].astype(np.float64)  # for the player to move there
        self.evaluated += len(batch)
        ends = np.cumsum([len(where) for where in places])[:-1]
        for family, where, found in zip(families, places, np.split(own, ends), strict=True):
            values = np.where(family.same[where], found, -found)
            family.values[where] = np.clip(values, -SUREST, SUREST)

    def _follow(self, state: State) -> _Children:
        """Return the successors of a position, with the values known so far."""
        place = state.tobytes()
        if place not in self._known:
            self._known[place] = _children_of(self._game, state)
        return self._known[place]


def _children_of(game: Game, state: State) -> _Children:
    """Return the successors of a position, with the values of terminal ones."""
    spec = game.spec()
    actions = np.empty(spec.max_legal, dtype=np.int16)
    actions = actions[: core.legal_actions(game, state, actions)]
    count = len(actions)
    children = _Children(
        actions=actions,
        states=np.empty((count, spec.state_size), dtype=spec.state_dtype),
        over=np.zeros(count, dtype=np.bool_),
        same=np.zeros(count, dtype=np.bool_),
        values=np.full(count, np.nan),
        states_packed=np.empty((count, spec.packed_bytes), dtype=np.uint8),
        legal=np.full((count, spec.max_legal), _PADDING, dtype=np.int16),
    )
    _write_children(game, state, children, np.empty(spec.num_players, dtype=np.float32))
    return children


@lean
def _write_children(game: Game, state: State, children: _Children, scores: np.ndarray) -> None:
    """Fill in all fields that follow from the rules; `scores` (float32 [P]) is scratch."""
    mover = core.to_move(game, state)
    for i in range(children.actions.shape[0]):
        child = children.states[i]
        copy_state(state, child)
        core.play(game, child, children.actions[i])
        children.over[i] = core.is_over(game, child)
        if children.over[i]:
            core.scores(game, child, scores)
            children.values[i] = scores[mover]
        else:
            viewer = core.to_move(game, child)
            children.same[i] = viewer == mover
            core.encode(game, child, viewer, children.states_packed[i])
            core.legal_actions(game, child, children.legal[i])
