"""Opponents of a person: a model that searches, or a classical agent such as `alpha_beta:5`."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from games.core import Game, State
from games.positions import replay
from zerofleet.evaluators.base import Evaluator
from zerofleet.search import RootAnalysis, SearchSettings
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.search.deadline import simulations_within
from zerofleet.search.watched import WatchedSearch
from zerofleet.strength.matches import Agent
from zerofleet.strength.matches.play import seen_by_mover

__all__ = ["LEAST_LIMIT_S", "MOST_LIMIT_S", "AgentOpponent", "InThread", "ModelOpponent", "no_model"]

LEAST_LIMIT_S, MOST_LIMIT_S = 0.05, 60.0
"""Bounds of the wall-clock time of a model's move against a person."""


def no_model(name: str) -> str:
    """Return the reason why an opponent takes no budget of a model."""
    return f"{name} is no model; an agent with a budget has it in its name, such as uct:200 or alpha_beta:2s"


LEAVES_OF_A_MOVE = 2
"""Leaves in a request for a model's move: two cost no strength and save half of the requests (docs/results/root_at_play.md)."""

InThread = Callable[..., Awaitable[Any]]
Began = Callable[[WatchedSearch], None]


def _unwatched(search: WatchedSearch) -> None:
    """Watch nothing."""


class ModelOpponent:
    """Model that searches, or samples its policy where choices are secret; also the adviser of its opponent."""

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        *,
        name: str,
        version: int,
        simulations: int,
        limit_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it; with `limit_s` the wall-clock time of a move is its budget, and `simulations` is not used."""
        self.name = f"{name} {version}" if name == "champion" else f"model {version}"
        self._limit_s = limit_s
        self._clock = clock
        if limit_s is not None:
            simulations = simulations_within(limit_s)
        self.title = f"{self.name}, {simulations} simulations" if limit_s is None else f"{self.name}, {limit_s:g} s"
        self._simulations = simulations
        self._game = game
        self._evaluator = evaluator
        self._version = version
        self._analysis = self._choice = SearchSettings.for_analysis(game.spec(), simulations)
        if limit_s is None:  # a number of simulations is known beforehand, so that the root of matches can share them out
            leaves = min(LEAVES_OF_A_MOVE, self._analysis.leaves_per_game)
            self._choice = SearchSettings.for_match(game.spec(), simulations).model_copy(update={"leaves_per_game": leaves})
        self._draws = simulations == 0 and game.spec().information == "simultaneous"

    def source(self, visits: int) -> str:
        """Return the source of an analysis: `title`, or `champion 7, 40 of 100 simulations` for a search that ended early.

        A budget of time has both: `champion 7, 2 s, 812 simulations`.
        """
        if self._limit_s is not None:
            return f"{self.title}, {visits} simulations"
        if visits >= self._simulations:
            return self.title
        return f"{self.name}, {visits} of {self._simulations} simulations"

    async def choose(self, moves: Sequence[int], *, seed: int, start: State | None = None, began: Began = _unwatched) -> int:
        """Return the best move of the search, which `began` receives before it runs. Cancellation: nothing is kept.

        A number of simulations has the root of matches, see `SearchSettings.for_match`.
        """
        analysis = await self._search(self._choice, moves, seed=seed, start=start, began=began)
        if self._draws:
            luck = np.random.default_rng([seed, len(moves)])
            return int(luck.choice(analysis.actions, p=analysis.priors / analysis.priors.sum(dtype=np.float64)))
        return analysis.best_action

    async def analyse(
        self, moves: Sequence[int], *, seed: int, start: State | None = None, began: Began = _unwatched
    ) -> RootAnalysis:
        """Return the searched position after `moves`; see `WatchedSearch`, which `began` receives before it runs.

        A `start` takes the place of the starting position. Cancellation: nothing is kept.
        """
        return await self._search(self._analysis, moves, seed=seed, start=start, began=began)

    async def _search(
        self, settings: SearchSettings, moves: Sequence[int], *, seed: int, start: State | None, began: Began
    ) -> RootAnalysis:
        search = WatchedSearch(
            self._game,
            self._evaluator,
            moves,
            settings=settings,
            version=self._version,
            seed=seed,
            position=start,
            limit_s=self._limit_s,
            clock=self._clock,
        )
        began(search)
        return await search.run()


@dataclass
class AgentOpponent:
    """Classical agent with its random numbers."""

    game: Game
    agent: Agent
    luck: np.random.Generator
    in_thread: InThread = in_daemon_thread
    """Runs a function outside the event loop: in a thread that the end of the process does not wait for, or one of a limited
    number."""

    @property
    def name(self) -> str:
        """Name of the agent."""
        return self.agent.name

    async def choose(self, moves: Sequence[int], *, seed: int, start: State | None = None) -> int:
        """Return the agent's move after `moves`, from a `start` in place of the starting position.

        Cancellation: the agent's search finishes in the background.
        """
        action: int = await self.in_thread(functools.partial(self._choose, tuple(moves), seed, start))
        return action

    def _choose(self, moves: Sequence[int], seed: int, start: State | None) -> int:
        state = seen_by_mover(self.game, replay(self.game, moves, seed, start), self.luck)
        return self.agent.choose(self.game, state, self.luck).action
