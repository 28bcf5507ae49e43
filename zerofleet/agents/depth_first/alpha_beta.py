"""The alpha-beta agent: the classical opponent, to a fixed depth or within a budget.

    alpha_beta:5             exactly 5 plies
    alpha_beta:100000nodes   as deep as 100,000 positions a move allow
    alpha_beta:50ms          as deep as 50 ms a move allow
    alpha_beta:50cpu_ms      as deep as 50 ms of processor time allow
    alpha_beta:3,model=7     positions at the horizon evaluated by model version 7

At a fixed depth it finds every forced win and avoids every avoidable loss within that depth, does not prefer a quick win to
a slow one, and breaks ties uniformly. Ties are exact: were the best value passed on as the bound of later moves, a worse move
would often return that very bound, tie with the best and be chosen: a weaker opponent under the same name. With a budget it
deepens iteratively (`deepening`) and takes the quickest win.

Positions at the horizon have the value of `games.core.estimate`; without that rule they count 0, so all moves without a win or
loss within the horizon tie.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from games.core import Game, State
from games.positions import new_state
from zerofleet.agents.base import Choice, Evaluate, require_duel
from zerofleet.agents.budget import Budget
from zerofleet.agents.depth_first.deepening import MAX_DEPTH, SearchedMoves, SlicedSearch, deepen, finish, read_budget
from zerofleet.agents.depth_first.minimax import Algorithm, MinimaxSearch
from zerofleet.agents.depth_first.network_minimax import NetworkSearch
from zerofleet.agents.depth_first.perceptron_minimax import PerceptronSearch
from zerofleet.agents.perceptron_values import compiled_network
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import ModelVersion

__all__ = ["AlphaBetaAgent", "AlphaBetaOptions", "SearchedMoves", "from_spelling", "search_moves"]


class AlphaBetaOptions(AgentOptions):
    """Options of `alpha_beta`."""

    algorithm: Algorithm = "alpha_beta"
    """Algorithm; all choose the same moves at different cost. With a model only `alpha_beta` is available."""
    ordered: bool = True
    """Whether earlier cutoff moves, or moves the model values highly, are searched first; affects cost only."""
    model: int | None = Field(default=None, ge=1)
    """Version of the model that evaluates positions at the horizon."""


class AlphaBetaAgent:
    """Searches within a budget; ties are broken uniformly."""

    def __init__(
        self, game: Game, budget: Budget, options: AlphaBetaOptions | None = None, *, evaluate: Evaluate | None = None
    ) -> None:
        """Create the agent; raises `InvalidRequest` for a game or options that it does not support.

        Args:
            game: The rules, of a game of two players with perfect information.
            budget: Plies, nodes or milliseconds a move.
            options: See `AlphaBetaOptions`.
            evaluate: Evaluator, required with `options.model`.
        """
        self._budget = budget
        self._options = options or AlphaBetaOptions()
        self._evaluate = evaluate
        self.name = canonical_name("alpha_beta", str(budget), self._options)
        _require_opponent(self.name, game)
        if self._options.model is not None and evaluate is None:
            raise InvalidRequest(f"{self.name} needs a model, but none is available; leave out model={self._options.model}")
        if self._options.model is not None and self._options.algorithm != "alpha_beta":
            raise InvalidRequest(f"{self.name}: a model needs algorithm=alpha_beta")
        if budget.is_time:
            self._warm_up(game)

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        search = self._search(game, state)
        if self._budget.unit == "plies":
            searched = finish(search, self._budget.amount)
        else:
            searched = deepen(search, self._budget, deepest=MAX_DEPTH).moves
        return Choice(int(rng.choice(np.sort(searched.best()))), searched.nodes, float(searched.values.max()))

    def _warm_up(self, game: Game) -> None:
        """Load or compile the search, so that the first move has its full time. No evaluator is called."""
        search = self._search(game, new_state(game))
        if isinstance(search, NetworkSearch):
            search.load_code()
        else:
            finish(search, 1)

    def _search(self, game: Game, state: State) -> SlicedSearch:
        options = self._options
        deepest = self._budget.amount if self._budget.unit == "plies" else MAX_DEPTH
        if options.model is not None and self._evaluate is not None:
            version = ModelVersion(options.model)
            network = compiled_network(self._evaluate, version)
            if network is not None:
                return PerceptronSearch(game, state, network, deepest=deepest, ordered=options.ordered)
            self._budget.require_own_thread(self.name)
            return NetworkSearch(game, state, self._evaluate, version=version, ordered=options.ordered)
        return MinimaxSearch(game, state, deepest=deepest, algorithm=options.algorithm, ordered=options.ordered)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> AlphaBetaAgent:
    """Return the agent written `alpha_beta:5`, `alpha_beta:50ms` or `alpha_beta:3,model=7`."""
    options = spelling.options(AlphaBetaOptions)
    return AlphaBetaAgent(game, read_budget(spelling, processor_time=True), options, evaluate=evaluate)


def search_moves(game: Game, state: State, depth: int) -> SearchedMoves:
    """Return every legal move with its exact value at `depth` plies, from wins and losses alone.

    Args:
        game: The rules, of a game of two players with perfect information.
        state: A position that is not over; not modified.
        depth: Search depth in plies, including the move itself; at least 1.
    """
    return finish(MinimaxSearch(game, state, deepest=depth, root="all", estimated=False), depth)


def _require_opponent(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game has two players and perfect information."""
    spec = game.spec()
    if spec.information == "perfect" and spec.num_players != 2:
        raise InvalidRequest(
            f"{name} plays games of two players; {spec.name} has {spec.num_players}. Use max_n:DEPTH, such as max_n:3"
        )
    require_duel(name, game)
