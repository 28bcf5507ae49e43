"""The agent `uct`: Monte-Carlo tree search by UCB1 with rollouts, for every game.

    uct:1000                             1,000 simulations a move
    uct:50ms    uct:20000nodes           50 ms, or 20,000 moves played in simulations
    uct:50cpu_ms                         50 ms of processor time
    uct:1000,model=7,confidence=10       priors: the values of model version 7, worth 10 simulations each
    uct:200,rollout=greedy,epsilon=0.2   rollouts by `games.core.move_value`

Rewards are scores, in [-1, 1], and `c` is C_p on that scale: the formula is mean + c sqrt(2 ln N(v) / N(v')). On rewards in
[0, 1] the same search has half that C_p. See `zerofleet.agents.uct` for the search and its sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from games.core import Game, State, has_rule
from games.positions import legal, new_state
from zerofleet.agents.base import Choice, Evaluate, require_open
from zerofleet.agents.budget import Budget
from zerofleet.agents.perceptron_values import compiled_network
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.agents.uct import UctRoot, UctSearch, afterstates_of, mover_values, plan_for
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import ModelVersion
from zerofleet.evaluators.in_process.perceptrons import PerceptronSource

__all__ = ["UctAgent", "UctOptions", "from_spelling", "spend"]

Final = Literal["mean", "visits"]

_SLICE = 1 << 10  # simulations; signals are handled between slices
_SLICES = 32  # minimum per time budget: the speed changes as the tree grows
_EQUAL = 1e-9  # rounding between means of the same rewards in another order


class UctOptions(AgentOptions):
    """Options of `uct`."""

    c: float = Field(default=0.7071, ge=0.0, allow_inf_nan=False)
    """C_p of UCB1 on rewards in [-1, 1]."""
    final: Final = "mean"
    """Criterion of the final choice: the highest mean, or the most visits."""
    rollout: Literal["random", "greedy"] = "random"
    """Rollout policy: uniformly random, or a move of the largest `games.core.move_value`."""
    epsilon: float = Field(default=0.1, ge=0.0, le=1.0)
    """Probability of a random move in greedy rollouts."""
    max_rollout_plies: int | None = Field(default=None, ge=0)
    """Plies after which a rollout is cut off and its position estimated by the rules."""
    model: int | None = Field(default=None, ge=1)
    """Version of the model whose values are the priors of moves."""
    confidence: float = Field(default=10.0, ge=0.0, allow_inf_nan=False)
    """Weight of a prior, in simulations."""

    @model_validator(mode="after")
    def _nothing_is_said_in_vain(self) -> Self:
        if "confidence" in self.model_fields_set and self.model is None:
            raise ValueError("confidence needs a model; add model=VERSION")
        if "epsilon" in self.model_fields_set and self.rollout != "greedy":
            raise ValueError("epsilon needs greedy rollouts; add rollout=greedy")
        return self


class UctAgent:
    """Searches within a budget and plays the best move; ties are broken uniformly."""

    def __init__(
        self, game: Game, budget: Budget, options: UctOptions | None = None, *, evaluate: Evaluate | None = None
    ) -> None:
        """Create the agent; raises `InvalidRequest` for options that it does not support.

        Args:
            game: The rules, for any number of players; a model needs perfect information.
            budget: Simulations, nodes (moves played in simulations) or milliseconds a move.
            options: See `UctOptions`.
            evaluate: Evaluator, required with `options.model`.
        """
        self._budget = budget
        self._options = options or UctOptions()
        self._evaluate = evaluate
        self.name = canonical_name("uct", str(budget), self._options)
        if self._options.model is not None:
            require_open(self.name, game)
            if evaluate is None:
                raise InvalidRequest(f"{self.name} needs a model, but none is available; leave out model={self._options.model}")
        if self._options.rollout == "greedy" and not has_rule(type(game), "move_value"):
            raise InvalidRequest(f"{self.name}: {game.spec().name} has no rule move_value; leave out rollout=greedy")
        if budget.is_time:
            self._warm_up(game, new_state(game))

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`. Propagates the evaluator's exceptions."""
        search = self._search(game, state, int(rng.integers(2**64, dtype=np.uint64)))
        spend(search, self._budget)
        root = search.root()
        best = int(rng.choice(_best(root, self._options.final)))
        return Choice(int(root.actions[best]), search.simulations, float(root.values[best]))

    def _search(self, game: Game, state: State, seed: int) -> UctSearch:
        options = self._options
        confidence = 0.0 if options.model is None else options.confidence
        plan = plan_for(
            game,
            exploration=options.c,
            confidence=confidence,
            greedy=options.rollout == "greedy",
            epsilon=options.epsilon,
            most_plies=options.max_rollout_plies,
        )
        evaluate = self._evaluate
        if options.model is None or evaluate is None or confidence == 0.0:
            return UctSearch(game, state, plan, seed=seed)
        version = ModelVersion(options.model)
        network = compiled_network(evaluate, version) if game.spec().num_players == 2 else None
        if network is not None:
            return UctSearch(game, state, plan, seed=seed, network=network)

        self._budget.require_own_thread(self.name)

        def priors(position: State, actions: np.ndarray) -> np.ndarray:
            return mover_values(game, position, actions, evaluate, version)

        return UctSearch(game, state, plan, seed=seed, priors=priors)

    def _warm_up(self, game: Game, state: State) -> None:
        """Compile or load the search, so that the first move has its full time. Only a model in this process is used."""
        UctSearch(game, state, plan_for(game), seed=0).run(1)
        if isinstance(self._evaluate, PerceptronSource) or self._budget.unit == "cpu_ms":
            self._search(game, state, 0).run(1)
        elif self._options.model is not None:
            afterstates_of(game, state, np.array(legal(game, state)))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> UctAgent:
    """Return the agent written `uct:1000`, `uct:50ms` or `uct:1000,model=7,confidence=10`."""
    options = spelling.options(UctOptions)
    try:
        budget = Budget.parse(spelling.argument, bare="simulations", allowed=("simulations", "nodes", "ms", "cpu_ms"))
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs simulations or another budget: {error}") from None
    return UctAgent(game, budget, options, evaluate=evaluate)


def spend(search: UctSearch, budget: Budget, *, clock: Callable[[], float] | None = None) -> None:
    """Search within the budget, but for at least one simulation.

    The search runs in slices, so that it can be interrupted. A time budget is kept within a few percent: the size of a slice
    follows from the measured speed.

    Args:
        search: A new search.
        budget: Simulations, nodes or milliseconds.
        clock: Time in seconds, replaceable in tests; None: the clock of the budget.
    """
    if budget.is_time:
        _spend_time(search, budget.amount / 1000, clock or budget.clock)
    elif budget.unit == "nodes":
        while search.positions < budget.amount:
            search.run(search.simulations + _SLICE, positions=budget.amount)
    else:
        while search.simulations < budget.amount:
            search.run(min(search.simulations + _SLICE, budget.amount))


def _spend_time(search: UctSearch, limit_s: float, clock: Callable[[], float]) -> None:
    began = clock()
    portion = 1
    while True:
        search.run(search.simulations + portion)
        spent = clock() - began
        if spent + spent / search.simulations / 2 >= limit_s:  # another simulation would end further from the limit
            return
        most = min(limit_s - spent, limit_s / _SLICES)
        portion = max(1, int(most * search.simulations / max(spent, 1e-9)))


def _best(root: UctRoot, final: Final) -> np.ndarray:
    """Return the indices of the best moves, including ties."""
    values = np.where(np.isnan(root.values), -np.inf, root.values)
    if final == "visits":
        values = np.where(root.visits == root.visits.max(), values, -np.inf)
    return np.flatnonzero(values >= values.max() - _EQUAL)
