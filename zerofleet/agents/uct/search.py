"""Resumable UCT search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from games.core import Game, State
from zerofleet.agents.perceptron_values import new_successors
from zerofleet.agents.uct.descent import ASKS, DONE, simulate
from zerofleet.agents.uct.perceptron import simulate_with
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
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron

__all__ = ["MoverValues", "UctRoot", "UctSearch"]

MoverValues: TypeAlias = Callable[[State, np.ndarray], np.ndarray]
"""Priors: values of moves (int16 [n]) of a position for the player to move, in [-1, 1], float64 [n]."""

_ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class UctRoot:
    """Moves of a searched position."""

    actions: np.ndarray  # int16 [n], ascending
    visits: np.ndarray  # int64 [n], simulations through the move, without priors
    values: np.ndarray  # float64 [n], mean reward for the player to move, including the prior; nan if there is neither


class UctSearch:
    """Tree and its simulations. Not thread-safe."""

    def __init__(
        self,
        game: Game,
        state: State,
        plan: UctPlan,
        *,
        seed: int,
        priors: MoverValues | None = None,
        network: BitPerceptron | None = None,
    ) -> None:
        """Create a search from a copy of `state`, which is not over.

        Args:
            game: The rules. With hidden information the player to move searches determinisations of the position.
            state: The position.
            plan: Parameters; the confidence applies only with priors.
            seed: In [0, 2^64); it determines the search, however the run is divided.
            priors: Called once per node at its second visit, with all its moves; needs perfect information.
            network: Network of the priors for compiled code, in place of `priors`; for games of two players.
        """
        self._game = game
        self._successors = None if network is None else new_successors(game, network, 1)
        self._plan = plan if priors is not None or network is not None else plan._replace(confidence=0.0)
        self._priors = priors or _none
        self._simulate = simulate if game.spec().information == "perfect" else simulate_worlds
        self.tree = new_tree(game, state, seed)
        """Current tree; replaced when it grows."""

    @property
    def simulations(self) -> int:
        """N(root): number of simulations so far."""
        return int(self.tree.tally[SIMULATIONS])

    @property
    def positions(self) -> int:
        """Number of moves played so far, in the tree and in rollouts."""
        return int(self.tree.tally[POSITIONS])

    def run(self, simulations: int, *, positions: int = _ENDLESS) -> None:
        """Continue to `simulations` simulations or `positions` moves in total. Propagates exceptions of the priors."""
        while (status := self._continue(simulations, positions)) != DONE:
            if status == ASKS:
                self._ask()
            else:
                self.tree = grown(self.tree)

    def _continue(self, simulations: int, positions: int) -> int:
        """Run until there is a reason to stop; return the status."""
        if self._successors is None:
            return self._simulate(self._game, self.tree, self._plan, simulations, positions)
        return simulate_with(self._game, self.tree, self._plan, self._successors, simulations, positions)

    def root(self) -> UctRoot:
        """Return the current statistics of the root's moves."""
        start, count = self.tree.nodes[ROOT, START], self.tree.nodes[ROOT, COUNT]
        edges, sums = self.tree.edges[start : start + count], self.tree.sums[start : start + count]
        weights = edges[:, VISITS] + self._plan.confidence
        values = np.divide(sums, weights, out=np.full(count, np.nan), where=weights > 0)
        order = np.argsort(edges[:, ACTION])
        return UctRoot(edges[order, ACTION].astype(np.int16), edges[order, VISITS].astype(np.int64), values[order])

    def _ask(self) -> None:
        """Set the priors of the pending node's moves."""
        tree = self.tree
        node = tree.nodes[tree.tally[PENDING]]
        own = slice(node[START], node[START] + node[COUNT])
        values = self._priors(tree.state, tree.edges[own, ACTION].astype(np.int16))
        tree.sums[own] = self._plan.confidence * values
        node[TRIED] = node[COUNT]


def _none(state: State, actions: np.ndarray) -> np.ndarray:
    return np.zeros(len(actions))
