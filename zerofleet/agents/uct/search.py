"""One search by UCT, in as many portions as one likes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from games.core import Game, State
from zerofleet.agents.uct.descent import ASKS, DONE, simulate
from zerofleet.agents.uct.tree import (
    ACTION,
    COUNT,
    PENDING,
    POSITIONS,
    ROOT,
    SIMULATIONS,
    START,
    TRIED,
    VISITS,
    UctPlan,
    grown,
    new_tree,
)
from zerofleet.agents.uct.worlds import simulate_worlds

__all__ = ["MoverValues", "UctRoot", "UctSearch"]

MoverValues: TypeAlias = Callable[[State, np.ndarray], np.ndarray]
"""What moves (int16 [n]) of a position are worth to the player to move, in [-1, 1], float64 [n]: the priors."""

_ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class UctRoot:
    """The moves of a searched position."""

    actions: np.ndarray  # int16 [n], ascending
    visits: np.ndarray  # int64 [n], simulations that began so, priors not counted
    values: np.ndarray  # float64 [n], mean reward for the player to move, prior included; nan where nothing is known


class UctSearch:
    """A tree and the simulations in it. Not for several threads at once."""

    def __init__(self, game: Game, state: State, plan: UctPlan, *, seed: int, priors: MoverValues | None = None) -> None:
        """Begin with a copy of `state`, in which the game goes on.

        Args:
            game: The rules. Where something is hidden, the search is that of the player to move, in deals of its own.
            state: The position.
            plan: What to do; its confidence counts only where there are priors.
            seed: In [0, 2^64); it decides the search, however it is divided into portions.
            priors: Asked once for each node that is visited again, about all its moves; not where something is hidden.
        """
        self._game = game
        self._plan = plan if priors is not None else plan._replace(confidence=0.0)
        self._priors = priors or _none
        self._simulate = simulate if game.spec().information == "perfect" else simulate_worlds
        self.tree = new_tree(game, state, seed)
        """Changes when it grows."""

    @property
    def simulations(self) -> int:
        """N(root): simulations so far."""
        return int(self.tree.tally[SIMULATIONS])

    @property
    def positions(self) -> int:
        """Moves played so far, in the tree and in the games played out."""
        return int(self.tree.tally[POSITIONS])

    def run(self, simulations: int, *, positions: int = _ENDLESS) -> None:
        """Go on until there have been `simulations` in all, or `positions` moves played. Raises what the priors raise."""
        while (status := self._simulate(self._game, self.tree, self._plan, simulations, positions)) != DONE:
            if status == ASKS:
                self._ask()
            else:
                self.tree = grown(self.tree)

    def root(self) -> UctRoot:
        """Return the moves of the root as they stand."""
        start, count = self.tree.nodes[ROOT, START], self.tree.nodes[ROOT, COUNT]
        edges, sums = self.tree.edges[start : start + count], self.tree.sums[start : start + count]
        weights = edges[:, VISITS] + self._plan.confidence
        values = np.divide(sums, weights, out=np.full(count, np.nan), where=weights > 0)
        order = np.argsort(edges[:, ACTION])
        return UctRoot(edges[order, ACTION].astype(np.int16), edges[order, VISITS].astype(np.int64), values[order])

    def _ask(self) -> None:
        """Give the moves of the node that waits what is known of them beforehand."""
        tree = self.tree
        node = tree.nodes[tree.tally[PENDING]]
        own = slice(node[START], node[START] + node[COUNT])
        values = self._priors(tree.state, tree.edges[own, ACTION].astype(np.int16))
        tree.sums[own] = self._plan.confidence * values
        node[TRIED] = node[COUNT]


def _none(state: State, actions: np.ndarray) -> np.ndarray:
    return np.zeros(len(actions))
