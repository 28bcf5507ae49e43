"""Rule-based player of tic-tac-toe: wins if it can, blocks if it must, takes the centre, else plays at random.

It looks one ply ahead, so a fork beats it; `best_response:tic_tac_toe_rules` shows how often.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.core import Game, State
from games.positions import legal
from games.tic_tac_toe import TicTacToe
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["TicTacToeRulesAgent", "from_spelling"]

_CENTRE = 4


class TicTacToeRulesAgent:
    """Takes the first winning cell, else the first that blocks a win, else the centre, else a random empty cell."""

    name = "tic_tac_toe_rules"

    def __init__(self, game: Game) -> None:
        """Create the agent; raises `InvalidRequest` for another game."""
        if not isinstance(game, TicTacToe):
            raise InvalidRequest(f"{self.name} plays tic_tac_toe, not {game.spec().name}; `random` plays every game")

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        return Choice(int(rng.choice(legal(game, state), p=self.policy(game, state))))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        actions = legal(game, state)
        mover = core.to_move(game, state)
        forced = [*_winning(game, state, actions, mover), *_winning(game, state, actions, 1 - mover)]
        if _CENTRE in actions:
            forced.append(_CENTRE)
        if not forced:
            return np.full(len(actions), 1.0 / len(actions))
        chosen = np.zeros(len(actions))
        chosen[actions.index(forced[0])] = 1.0
        return chosen


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> TicTacToeRulesAgent:
    """Return the agent written `tic_tac_toe_rules`."""
    spelling.refuse_argument()
    spelling.refuse_options()
    return TicTacToeRulesAgent(game)


def _winning(game: Game, state: State, actions: list[int], player: int) -> list[int]:
    """Return the cells where a stone of `player` completes a line, ascending, whichever player is to move."""
    scores = np.empty(2, dtype=np.float32)
    cells = []
    for action in actions:
        after = state.copy()
        after[player] |= np.uint64(1 << action)
        core.scores(game, after, scores)
        if scores[player] > 0.0:
            cells.append(action)
    return cells
