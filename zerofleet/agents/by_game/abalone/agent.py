"""Abalone players: alpha-beta with a heuristic evaluation.

abalone_search:2                              2 plies, the simple evaluation
abalone_search:200000nodes                    as deep as 200,000 positions a move allow
abalone_search:3,evaluation=strong            3 plies, the evaluation after Papadopoulos et al. 2012
abalone_search:2,ties=first                   always the same move in the same position
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from games.abalone import Abalone
from games.core import Game, State
from games.positions import new_state
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.abalone import search
from zerofleet.agents.by_game.abalone.evaluation import evaluation
from zerofleet.agents.by_game.abalone.thinking import Searched, SearchOptions, think
from zerofleet.agents.depth_first.deepening import read_budget
from zerofleet.agents.spelling import Spelling, canonical_name
from zerofleet.errors import InvalidRequest

__all__ = ["AbaloneSearchAgent", "AbaloneSearchOptions", "from_spelling"]

_NAME = "abalone_search"
_NEARLY_DECIDED = 0.99  # bound of a heuristic score, below a win


class AbaloneSearchOptions(SearchOptions):
    """Options of `abalone_search`."""

    ties: Literal["random", "first"] = "random"
    """Tie break: random, or the move of the highest static value, then of the lowest number."""


class AbaloneSearchAgent:
    """Searches within a budget and plays one of the best moves."""

    def __init__(self, game: Game, budget: Budget, options: AbaloneSearchOptions | None = None) -> None:
        """Create the agent; raises `InvalidRequest` for a game or options that it does not support."""
        self._budget = budget
        self._options = options or AbaloneSearchOptions()
        self.name = canonical_name(_NAME, str(budget), self._options)
        own = _abalone(self.name, game)
        if budget.unit != "plies" and not self._options.deepening:
            raise InvalidRequest(f"{self.name}: a budget of {budget.unit} needs deepening; leave out deepening=false")
        if budget.unit == "ms":
            think(own, new_state(game), Budget(1, "plies"), self._options)  # compiles, so that the first move has its full time

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        own = _abalone(self.name, game)
        searched = think(own, state, self._budget, self._options)
        best = searched.best()
        action = best[0] if self._options.ties == "first" else rng.choice(np.sort(best))
        return Choice(int(action), searched.nodes, self._score(own, searched))

    def _score(self, game: Abalone, searched: Searched) -> float:
        """Convert the best value to a score: 1 or -1 for a proven win or loss, else the equivalent lead in captures."""
        value = int(searched.values.max())
        if abs(value) >= search.WON:
            return 1.0 if value > 0 else -1.0
        score = value / (evaluation(self._options.evaluation).marble * game.captures)
        return max(-_NEARLY_DECIDED, min(_NEARLY_DECIDED, score))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> AbaloneSearchAgent:
    """Return the agent written `abalone_search:BUDGET[,OPTION=VALUE]...`."""
    return AbaloneSearchAgent(game, read_budget(spelling), spelling.options(AbaloneSearchOptions))


def repeats_itself(spelling: Spelling) -> bool:
    """See `AgentKind.repeats`."""
    return spelling.options(AbaloneSearchOptions).ties == "first" and not read_budget(spelling).is_time


def _abalone(name: str, game: Game) -> Abalone:
    """Return the game as `Abalone`; raises `InvalidRequest` for another game."""
    if not isinstance(game, Abalone):
        raise InvalidRequest(f"{name} plays abalone only, not {game.spec().name}; use alpha_beta, such as alpha_beta:3")
    return game
