"""The agent `rhombus_pool`: the few best moves by a model of values, then a heuristic search among these.

    rhombus_pool:1,model=7               the best of all moves by the model
    rhombus_pool:3,model=7               the six best by the model; the best of these after a search of three plies
    rhombus_pool:3,model=7,mix=0.5       the six best by half the board value and half the model's value

Moves are ranked by (1 - k) W + k V (Li, Chinese University of Hong Kong): V is the model's value of the position after the
move, W the board value of `rhombus_search` there, the lead as a share of all levels; both are in [-1, 1] for the player who
moves. A level of lead is 1/120 in W, so W decides between moves only with a small k. A move that ends the game has its score.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from pydantic import Field

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import CELLS, LEVELS_TO_GO
from games.core import Game, State
from games.positions import encode_for, final_scores, legal
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.rhombus.agent import MOST_PLIES, RhombusSearchAgent
from zerofleet.agents.by_game.rhombus.agent import SearchOptions as RhombusOptions
from zerofleet.agents.by_game.rhombus.evaluation import WIN, cell_values, expected_score
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.agents.uct import afterstates_of, values_of
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import ModelVersion

__all__ = ["PoolOptions", "RhombusPoolAgent", "board_values", "from_spelling"]

_SUREST = 0.99  # bound of board values, as in the search agent


class PoolOptions(AgentOptions):
    """Options of `rhombus_pool`."""

    model: int = Field(default=0, ge=1)
    """Version of the model."""
    pool: int = Field(default=6, ge=1, le=192)
    """Number of moves that are searched."""
    mix: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    """k: share of the model's value in the ranking; 1: the model alone, 0: the board value alone."""
    ties: Literal["random", "fixed"] = "random"
    """Tie break between moves of equal score: uniformly random, or always the one ranked first."""


class RhombusPoolAgent:
    """Ranks all legal moves, keeps the best, and searches those."""

    def __init__(self, game: Game, plies: int, options: PoolOptions, *, evaluate: Evaluate | None) -> None:
        """Create the agent; raises `InvalidRequest` for another game, without a model, or for a depth out of range."""
        self.options = options
        self.plies = plies
        self.name = canonical_name("rhombus_pool", str(plies), options)
        if not 1 <= plies <= MOST_PLIES:
            raise InvalidRequest(f"{self.name} is out of range; want 1 to {MOST_PLIES} plies")
        if evaluate is None:
            raise InvalidRequest(f"{self.name} needs a model, but none is available")
        self._evaluate = evaluate
        self._search = RhombusSearchAgent(game, Budget(max(1, plies - 1), "plies"), RhombusOptions())

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`. Raises what the evaluator raises."""
        actions, values = self.pool(game, state)
        nodes = len(legal(game, state))
        if self.plies > 1:
            level = cell_values().level
            found = [self._searched(cast("ChineseCheckersRhombus", game), state, int(action)) for action in actions]
            scores = np.array([score for score, _ in found], dtype=np.float64)
            values = np.array([expected_score(score, level) for score, _ in found])
            nodes += sum(visited for _, visited in found)
        else:
            scores = values
        best = np.flatnonzero(scores == scores.max())
        chosen = int(best[0] if self.options.ties == "fixed" else rng.choice(best))
        return Choice(int(actions[chosen]), nodes, float(values[chosen]))

    def pool(self, game: Game, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return the moves of the pool, best first, int64 [M], and their ranking values for the player to move, float64 [M]."""
        actions = np.array(legal(game, state), dtype=np.int64)
        after = afterstates_of(game, state, actions)
        values = values_of(after, core.to_move(game, state), self._evaluate, ModelVersion(self.options.model))
        mixed = (1.0 - self.options.mix) * board_values(game, state, actions) + self.options.mix * values
        values = np.where(after.over, values, mixed)
        kept = np.argsort(-values, kind="stable")[: self.options.pool]
        return actions[kept], values[kept]

    def _searched(self, game: ChineseCheckersRhombus, state: State, action: int) -> tuple[int, int]:
        """Return the score of a move for its player after a search of the remaining plies, and the visited positions."""
        mover, after = int(core.to_move(game, state)), state.copy()
        core.play(game, after, action)
        if not core.is_over(game, after):
            found = self._search.search(game, after)
            return -found.score, found.nodes
        score = final_scores(game, after)[mover]
        if abs(score) == 1.0:
            return int(score) * WIN, 1
        return round(score * cell_values().level * LEVELS_TO_GO), 1


def board_values(game: Game, state: State, actions: np.ndarray) -> np.ndarray:
    """Return the board values after moves (int [n]) for the player to move, in [-1, 1], float64 [n]: the evaluation of
    `rhombus_search` at its horizon."""
    table = cell_values()
    bits = np.unpackbits(encode_for(game, state, core.to_move(game, state)), bitorder="little")[: 2 * CELLS]
    lead = int(bits[:CELLS] @ table.worth[0]) - int(bits[CELLS:] @ table.worth[1])
    start, target = np.divmod(actions, CELLS)
    scores = lead + table.worth[0][target] - table.worth[0][start]
    return np.asarray(np.clip(scores / (table.level * LEVELS_TO_GO), -_SUREST, _SUREST))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> RhombusPoolAgent:
    """Return the agent written `rhombus_pool:3,model=7`."""
    try:
        plies = Budget.parse(spelling.argument, bare="plies", allowed=("plies",)).amount
    except InvalidRequest as error:
        raise InvalidRequest(f"{str(spelling)!r} needs a depth in plies: {error}") from None
    options = spelling.options(PoolOptions)
    if not options.model:
        raise InvalidRequest(f"{str(spelling)!r} needs the version of a model, such as rhombus_pool:3,model=7")
    return RhombusPoolAgent(game, plies, options, evaluate=evaluate)


def repeats_itself(spelling: Spelling) -> bool:
    """See `AgentKind.repeats`."""
    return spelling.options(PoolOptions).ties == "fixed"
