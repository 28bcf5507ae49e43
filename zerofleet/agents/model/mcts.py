"""The agent `mcts`: the self-play search with a model and its own budget.

    mcts:400,model=7       400 simulations a move, as `model:7` in a match with `--simulations 400 --root puct`
    mcts:200ms,model=7     as many as 200 ms allow; mcts:200ms,model=7,leaves=8 evaluates 8 positions per request

One ladder can thus hold a model at several budgets. The search is `zerofleet.search.search_state` with the settings of
matches: no noise, the best move, a new tree for each move; `root=gumbel` selects the other root. Where information is hidden,
each simulation searches its own determinisation.

A time budget stops the search between two evaluations, at the one nearest to the limit and after the first at the earliest;
the tree at that point decides.
Terminal positions need no evaluation, so simulations are also limited to 500 per millisecond: a decided position does not
exceed the time budget. A single legal move is played at once.
"""

from __future__ import annotations

import math
import time

import numpy as np
from pydantic import Field

from games.core import Game, State
from games.positions import legal, new_state
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.canonical import canonical_name
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.search import PlayRoot, RootAnalysis, SearchSettings, search_state
from zerofleet.search.block import LAST_SEED

__all__ = ["MOST_SIMULATIONS", "MctsAgent", "MctsOptions", "from_spelling"]

MOST_SIMULATIONS = 100_000
"""Limit per move, as in `SearchSettings`."""
_SIMULATIONS_A_MS = 500  # faster than any network, slower than the rules alone


class MctsOptions(AgentOptions):
    """Options of `mcts`."""

    model: int = Field(default=0, ge=1)
    """Version of the model."""
    leaves: int = Field(default=1, ge=1, le=64)
    """Positions evaluated together, with virtual loss: more simulations in the same time, each slightly less well chosen."""
    root: PlayRoot = "puct"
    """Root of the search. Part of the name, so that results of one name have one root."""


class _Clock:
    """Deadline of a search: stops at the step nearest to the limit, if each step takes as long as the previous one."""

    def __init__(self, limit_s: float) -> None:
        self._stepped_s = time.perf_counter()
        self._ends_s = self._stepped_s + limit_s

    def is_time_up(self) -> bool:
        """Return whether another step would end further from the limit than stopping now."""
        now_s, before_s = time.perf_counter(), self._stepped_s
        self._stepped_s = now_s
        return now_s + (now_s - before_s) / 2 >= self._ends_s


class MctsAgent:
    """Searches with a model and plays the best move of the root (`zerofleet.search.decide.chosen_edge`)."""

    def __init__(self, game: Game, budget: Budget, options: MctsOptions, *, evaluate: Evaluate | None) -> None:
        """Create the agent; the budget counts simulations or milliseconds a move. Raises `InvalidRequest`."""
        self._budget = budget
        self._version = ModelVersion(options.model)
        self.name = canonical_name("mcts", str(budget), options)
        if evaluate is None:
            raise InvalidRequest(f"{self.name} needs a model, but none is available")
        if options.leaves > 1 and game.spec().information != "perfect":
            raise InvalidRequest(f"{self.name}: leaves needs a game with perfect information; leave out leaves")
        self._evaluate = evaluate
        self._leaves = options.leaves
        self._root = options.root
        self._simulations = budget.amount
        if budget.unit == "ms":
            self._simulations = min(budget.amount * _SIMULATIONS_A_MS, MOST_SIMULATIONS)
            self._warm_up(game)
        elif budget.amount > MOST_SIMULATIONS:
            raise InvalidRequest(f"{self.name} is out of range; want 1 to {MOST_SIMULATIONS:,} simulations")

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`. Raises what the evaluator raises."""
        is_time_up = _Clock(self._budget.amount / 1000 if self._budget.unit == "ms" else math.inf).is_time_up
        actions = legal(game, state)
        if len(actions) == 1:
            return Choice(actions[0])
        settings = self._settings(game, self._simulations)
        seed = int(rng.integers(LAST_SEED))
        analysis = search_state(
            game, self._evaluate, state, settings=settings, version=self._version, seed=seed, is_time_up=is_time_up
        )
        return _choice(analysis)

    def _settings(self, game: Game, simulations: int) -> SearchSettings:
        settings = SearchSettings.for_match(game.spec(), simulations, root=self._root)
        return settings.model_copy(update={"leaves_per_game": self._leaves})

    def _warm_up(self, game: Game) -> None:
        """Compile or load the search, so that the first move has its full time. No model is used."""

        def uniform(batch: LeafBatch, version: ModelVersion) -> Evaluation:
            policy, value, heads = uniform_answer(batch, game.spec())
            return Evaluation(policy, value, version, heads)

        search_state(game, uniform, new_state(game), settings=self._settings(game, 2), version=self._version, seed=0)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> MctsAgent:
    """Return the agent written `mcts:400,model=7` or `mcts:200ms,model=7`."""
    options = spelling.options(MctsOptions)
    if not options.model:
        raise InvalidRequest(f"{str(spelling)!r} needs the version of a model, such as mcts:400,model=7")
    try:
        budget = Budget.parse(spelling.argument, bare="simulations", allowed=("simulations", "ms"))
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs simulations or time: {error}") from None
    return MctsAgent(game, budget, options, evaluate=evaluate)


def _choice(analysis: RootAnalysis) -> Choice:
    """Return the move of a completed or interrupted search."""
    action = analysis.best_action
    value = float(analysis.values[analysis.actions == action][0])
    return Choice(action, int(analysis.visits.sum()), float(analysis.value[analysis.to_move]) if np.isnan(value) else value)
