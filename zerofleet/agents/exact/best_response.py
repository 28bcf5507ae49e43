"""The best answer to a player whose habits are known: `best_response:tic_tac_toe_rules`.

A perfect player fears a perfect opponent; this one knows whom it meets. It takes the move with the highest expected score
if the opponent goes on drawing its moves from its own policy: expectimax, every position remembered. So it says how much
can be gained at most from that opponent, which is the yardstick of whoever learns against it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from games import core
from games.core import Game, State
from games.positions import final_scores, legal
from zerofleet.agents.base import Agent, Choice, PolicyAgent, require_duel
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_POSITIONS", "BestResponseAgent", "from_spelling"]

MAX_POSITIONS = 200_000
"""What the agent remembers at most; tic-tac-toe has 5,478 positions. One costs some 20 microseconds."""

_EQUAL = 1e-12  # sums of the same probabilities in another order differ by less


class BestResponseAgent:
    """Plays against one opponent; among equally good moves each is as likely."""

    def __init__(self, game: Game, opponent: Agent, *, max_positions: int = MAX_POSITIONS) -> None:
        """Take a game for two with perfect information and the opponent.

        Raises `InvalidRequest` if the opponent cannot say how likely its moves are.
        """
        self.name = f"best_response:{opponent.name}"
        require_duel(self.name, game)
        if not isinstance(opponent, PolicyAgent):
            raise InvalidRequest(
                f"{opponent.name} does not say how likely its moves are, so nobody knows the best response to it"
            )
        self._opponent = opponent
        self._max_positions = max_positions
        self._known: dict[tuple[int, int], float] = {}  # by position key and responding player
        self._lock = threading.Lock()

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`; raises `InvalidRequest` if the game has too many positions."""
        player = core.to_move(game, state)
        actions = legal(game, state)
        with self._lock:
            values = np.array([self._value(game, _after(game, state, action), player) for action in actions])
            nodes = len(self._known)
        best = np.flatnonzero(values >= values.max() - _EQUAL)
        return Choice(actions[int(rng.choice(best))], nodes, float(values.max()))

    def _value(self, game: Game, state: State, player: int) -> float:
        """Return the expected score of `player`, who responds."""
        place = (int(core.key(game, state)), player)
        if place not in self._known:
            if len(self._known) >= self._max_positions:
                raise InvalidRequest(
                    f"{self.name}: {game} has more than {self._max_positions:,} positions that matter; take a smaller game"
                )
            self._known[place] = self._searched(game, state, player)
        return self._known[place]

    def _searched(self, game: Game, state: State, player: int) -> float:
        if core.is_over(game, state):
            return final_scores(game, state)[player]
        if core.to_move(game, state) == player:
            return max(self._value(game, _after(game, state, action), player) for action in legal(game, state))
        chances = zip(legal(game, state), self._opponent.policy(game, state), strict=True)
        return sum(float(p) * self._value(game, _after(game, state, action), player) for action, p in chances if p > 0.0)


def from_spelling(spelling: Spelling, game: Game, make_opponent: Callable[[str], Agent]) -> BestResponseAgent:
    """Return the agent written `best_response:AGENT`; `make_opponent` makes the opponent from its name."""
    spelling.refuse_options()
    if not spelling.argument:
        raise InvalidRequest("best_response needs the agent to be answered, such as best_response:tic_tac_toe_rules")
    return BestResponseAgent(game, make_opponent(spelling.argument))


def _after(game: Game, state: State, action: int) -> State:
    after = state.copy()
    core.play(game, after, action)
    return after
