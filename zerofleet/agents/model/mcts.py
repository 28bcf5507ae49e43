"""The agent `mcts`: the self-play search with a model and its own budget.

    mcts:400,model=7       400 simulations a move, as `model:7` in a match with `--simulations 400`
    mcts:200ms,model=7     as many as 200 ms allow; mcts:200ms,model=7,leaves=8 evaluates 8 positions per request
    mcts:16,model=7,information=predict,u=literal,temperature=1      another search (`search_options`)

One table can thus hold a model at several budgets and with several searches. The search is `zerofleet.search.search_state` with
the settings of matches (`SearchSettings.for_match`): no noise, a new tree for each move, and for two players
with perfect information a Gumbel root. Where information is hidden, each simulation searches its own determinisation. A match
searches up to `MOST_IN_BLOCKS` simulations in blocks of games, as it does for models (`match_search`); otherwise a thread
searches one position at a time.

A time budget stops the search between two evaluations, at the one nearest to the limit and after the first at the earliest;
the tree at that point decides. Its root is PUCT, as the number of simulations is not known beforehand.
Terminal positions need no evaluation, so simulations are also limited to 500 per millisecond: a decided position does not
exceed the time budget. A single legal move is played at once.
"""

from __future__ import annotations

import math
import time

import numpy as np
from pydantic import Field

from games.core import Game, GameSpec, State
from games.positions import legal, new_state
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.model.search_options import SearchOptions
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.search import RootAnalysis, SearchSettings, search_state
from zerofleet.search.block import LAST_SEED
from zerofleet.search.deadline import MOST_SIMULATIONS, Deadline, simulations_within

__all__ = ["MctsAgent", "MctsOptions", "from_spelling", "match_search", "repeats_itself"]

MOST_IN_BLOCKS = 4096
"""Simulations up to which the trees of all games of a match are in memory together."""


class _ModelOptions(AgentOptions):
    model: int = Field(default=0, ge=1)
    """Version of the model."""
    leaves: int = Field(default=1, ge=1, le=64)
    """Positions evaluated together, with virtual loss: more simulations in the same time, each slightly less well chosen."""


class MctsOptions(SearchOptions, _ModelOptions):
    """Options of `mcts`: the model, then those of every search."""


class MctsAgent:
    """Searches with a model and plays its best move, or samples by visits with `temperature`."""

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
        self._options = options
        self._settings(game, 2)  # rejects options that do not suit the game
        self._simulations = budget.amount
        if budget.unit == "ms":
            if options.root == "gumbel":
                raise InvalidRequest(f"{self.name}: root=gumbel halves a number of simulations; give one in place of a time")
            self._simulations = simulations_within(budget.amount / 1000)
            self._warm_up(game)
        elif budget.amount > MOST_SIMULATIONS:
            raise InvalidRequest(f"{self.name} is out of range; want 1 to {MOST_SIMULATIONS:,} simulations")

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`. Raises what the evaluator raises."""
        limit_s = self._budget.amount / 1000 if self._budget.unit == "ms" else math.inf
        is_time_up = Deadline(limit_s, time.perf_counter).is_time_up
        actions = legal(game, state)
        if len(actions) == 1:
            return Choice(actions[0])
        settings = self._settings(game, self._simulations)
        seed = int(rng.integers(LAST_SEED))
        analysis = search_state(
            game, self._evaluate, state, settings=settings, version=self._version, seed=seed, is_time_up=is_time_up
        )
        return _choice(analysis, self._options.temperature or 0.0, rng)

    def _settings(self, game: Game, simulations: int) -> SearchSettings:
        return _search(self._budget, simulations, self._options, game.spec())

    def _warm_up(self, game: Game) -> None:
        """Load or compile the search and compute its tables, so that the first move has its full time. No model is used."""

        def uniform(batch: LeafBatch, version: ModelVersion) -> Evaluation:
            policy, value, heads = uniform_answer(batch, game.spec())
            return Evaluation(policy, value, version, heads)

        settings = self._settings(game, self._simulations)
        search_state(game, uniform, new_state(game), settings=settings, version=self._version, seed=0, is_time_up=lambda: True)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> MctsAgent:
    """Return the agent written `mcts:400,model=7` or `mcts:200ms,model=7`."""
    budget, options = _read(spelling)
    return MctsAgent(game, budget, options, evaluate=evaluate)


def match_search(text: str, spec: GameSpec) -> tuple[SearchSettings, ModelVersion] | None:
    """Return search and model of an `mcts` with at most `MOST_IN_BLOCKS` simulations, None for any other agent.

    A match searches in blocks of games, many of which share a request. Raises `InvalidRequest`.
    """
    spelling = Spelling.parse(text)
    if spelling.name != "mcts":
        return None
    budget, options = _read(spelling)
    if budget.unit != "simulations" or budget.amount > MOST_IN_BLOCKS:
        return None
    return _search(budget, budget.amount, options, spec), ModelVersion(options.model)


def repeats_itself(spelling: Spelling) -> bool:
    """See `AgentKind.repeats`."""
    budget, options = _read(spelling)
    return budget.unit == "simulations" and not options.temperature


def _read(spelling: Spelling) -> tuple[Budget, MctsOptions]:
    options = spelling.options(MctsOptions)
    if not options.model:
        raise InvalidRequest(f"{str(spelling)!r} needs the version of a model, such as mcts:400,model=7")
    try:
        return Budget.parse(spelling.argument, bare="simulations", allowed=("simulations", "ms")), options
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs simulations or time: {error}") from None


def _search(budget: Budget, simulations: int, options: MctsOptions, spec: GameSpec) -> SearchSettings:
    usual = SearchSettings.for_play if budget.is_time else SearchSettings.for_match  # a time interrupts the search
    return options.applied(usual(spec, simulations).model_copy(update={"leaves_per_game": options.leaves}), spec)


def _choice(analysis: RootAnalysis, temperature: float, rng: np.random.Generator) -> Choice:
    """Return the move of a completed or interrupted search; with a temperature sampled from the moves no proof rules out."""
    action = analysis.best_action
    visits = np.where(analysis.candidates, analysis.visits, 0)
    if temperature and visits.any():
        shares = (visits / visits.max()) ** (1.0 / temperature)
        action = int(rng.choice(analysis.actions, p=shares / shares.sum()))
    value = float(analysis.values[analysis.actions == action][0])
    return Choice(action, int(analysis.visits.sum()), float(analysis.value[analysis.to_move]) if np.isnan(value) else value)
