"""The alpha-beta agent: the classical opponent, to a depth of known strength or as deep as a budget lets.

    alpha_beta:5             exactly 5 plies
    alpha_beta:100000nodes   as deep as 100,000 positions a move let it
    alpha_beta:50ms          as deep as 50 ms a move let it
    alpha_beta:3,model=7     positions at the horizon as model version 7 sees them

To a fixed depth it takes every win and avoids every loss that it can force or see within it, does not prefer a quick win to
a slow one, and draws among the equally best moves with equal chances. Which moves are equal is exact: were the bound of one
move passed on to the next, a worse move would often come back with just that bound, look as good as the best, and be
chosen: a weaker opponent under the same name. With a budget it deepens (`deepening`) and wins soonest.

What a position at the horizon is worth says `games.core.estimate`; without that rule it counts 0 and everything that is
neither won nor lost in sight is equally good.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from games.core import Game, State
from games.positions import new_state
from zerofleet.agents.base import Choice, Evaluate, require_duel
from zerofleet.agents.budget import Budget
from zerofleet.agents.canonical import canonical_name
from zerofleet.agents.depth_first.deepening import MAX_DEPTH, SearchedMoves, SlicedSearch, deepen, finish, read_budget
from zerofleet.agents.depth_first.minimax import Algorithm, MinimaxSearch
from zerofleet.agents.depth_first.network_minimax import NetworkSearch
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import ModelVersion

__all__ = ["AlphaBetaAgent", "AlphaBetaOptions", "SearchedMoves", "from_spelling", "search_moves"]


class AlphaBetaOptions(AgentOptions):
    """Options of `alpha_beta`."""

    algorithm: Algorithm = "alpha_beta"
    """`minimax` and `negascout` choose alike, at other cost. With a model alpha-beta is the only one."""
    ordered: bool = True
    """Whether moves that cut before, or that the model likes, are tried first; no other choice follows from it."""
    model: int | None = Field(default=None, ge=1)
    """Version of the model that values positions at the horizon."""


class AlphaBetaAgent:
    """Searches within a budget and chooses among the equally best moves with equal chances."""

    def __init__(
        self, game: Game, budget: Budget, options: AlphaBetaOptions | None = None, *, evaluate: Evaluate | None = None
    ) -> None:
        """Take the game to play and the budget; raises `InvalidRequest` for a game or options it cannot play with.

        Args:
            game: Of two players with perfect information.
            budget: Plies, nodes or milliseconds a move.
            options: See there.
            evaluate: Who evaluates, if a model is asked.
        """
        self._budget = budget
        self._options = options or AlphaBetaOptions()
        self._evaluate = evaluate
        self.name = canonical_name("alpha_beta", str(budget), self._options)
        _require_opponent(self.name, game)
        if self._options.model is not None and evaluate is None:
            raise InvalidRequest(f"{self.name} asks a model, and there is none here; leave out model={self._options.model}")
        if self._options.model is not None and self._options.algorithm != "alpha_beta":
            raise InvalidRequest(f"{self.name}: with a model there is only algorithm=alpha_beta")
        if budget.unit == "ms" and self._options.model is None:
            finish(self._search(game, new_state(game)), 1)  # compiles, so that the first move has its time for itself

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        search = self._search(game, state)
        if self._budget.unit == "plies":
            searched = finish(search, self._budget.amount)
        else:
            searched = deepen(search, self._budget, deepest=MAX_DEPTH).moves
        return Choice(int(rng.choice(np.sort(searched.best()))), searched.nodes, float(searched.values.max()))

    def _search(self, game: Game, state: State) -> SlicedSearch:
        options = self._options
        if options.model is not None and self._evaluate is not None:
            version = ModelVersion(options.model)
            return NetworkSearch(game, state, self._evaluate, version=version, ordered=options.ordered)
        deepest = self._budget.amount if self._budget.unit == "plies" else MAX_DEPTH
        return MinimaxSearch(game, state, deepest=deepest, algorithm=options.algorithm, ordered=options.ordered)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> AlphaBetaAgent:
    """Return the agent written `alpha_beta:5`, `alpha_beta:50ms` or `alpha_beta:3,model=7`."""
    options = spelling.options(AlphaBetaOptions)
    return AlphaBetaAgent(game, read_budget(spelling), options, evaluate=evaluate)


def search_moves(game: Game, state: State, depth: int) -> SearchedMoves:
    """Return every legal move with its exact value `depth` plies from here, by wins and losses alone.

    Args:
        game: The rules, of a game of two players with perfect information.
        state: A position in which the game goes on; it stays as it is.
        depth: How many plies to look ahead, the move itself included; at least 1.
    """
    return finish(MinimaxSearch(game, state, deepest=depth, root="all", estimated=False), depth)


def _require_opponent(name: str, game: Game) -> None:
    """Raise `InvalidRequest` unless the game is one of two players who both see everything."""
    spec = game.spec()
    if spec.information == "perfect" and spec.num_players != 2:
        raise InvalidRequest(
            f"{name} plays games of two players; {spec.name} has {spec.num_players}. max_n:DEPTH, such as max_n:3, plays those"
        )
    require_duel(name, game)
