"""Exact best response to a known policy: `best_response:tic_tac_toe_rules`.

A perfect player assumes a perfect opponent; this one plays against a given policy. It maximises the expected score over the
opponent's move distribution: expectimax with memoisation. Its score is the maximum that can be gained from that opponent,
hence the upper bound for any agent trained against it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from games import core
from games.core import Game, State
from games.positions import final_scores, legal, titled
from zerofleet.agents.base import Agent, Choice, PolicyAgent, require_duel
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_POSITIONS", "BestResponseAgent", "from_spelling"]

MAX_POSITIONS = 200_000
"""Maximal number of memoised positions; tic-tac-toe has 5,478. Each takes about 20 microseconds."""

_EQUAL = 1e-12  # exceeds the rounding between sums of the same probabilities in another order


class BestResponseAgent:
    """Plays the best response to one opponent; ties are broken uniformly."""

    def __init__(self, game: Game, opponent: Agent, *, max_positions: int = MAX_POSITIONS) -> None:
        """Create the agent for a game of two players with perfect information.

        Raises `InvalidRequest` for another game or an opponent that is not a `PolicyAgent`.
        """
        self.name = f"best_response:{opponent.name}"
        require_duel(self.name, game)
        if not isinstance(opponent, PolicyAgent):
            raise InvalidRequest(
                f"{opponent.name} has no known move probabilities; best_response needs an agent that has, such as random"
            )
        self._opponent = opponent
        self._max_positions = max_positions
        self._known: dict[tuple[bytes, int], float] = {}  # by state and responding player; a key may leave out the plies
        self._lock = threading.Lock()

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`; raises `InvalidRequest` if the game has too many positions or plies."""
        player = core.to_move(game, state)
        actions = legal(game, state)
        with self._lock:
            try:
                values = np.array([self._value(game, _after(game, state, action), player) for action in actions])
            except RecursionError:
                raise InvalidRequest(
                    f"{self.name}: a game of {titled(game)} has too many plies to be searched; use a smaller game"
                ) from None
            nodes = len(self._known)
        best = np.flatnonzero(values >= values.max() - _EQUAL)
        return Choice(actions[int(rng.choice(best))], nodes, float(values.max()))

    def _value(self, game: Game, state: State, player: int) -> float:
        """Return the expected score of `player`, the responder."""
        place = (state.tobytes(), player)
        if place not in self._known:
            if len(self._known) >= self._max_positions:
                raise InvalidRequest(
                    f"{self.name}: {titled(game)} has more than {self._max_positions:,} relevant positions; use a smaller game"
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
    """Return the agent written `best_response:AGENT`, whose options are AGENT's; `make_opponent` creates AGENT by name."""
    if not spelling.argument:
        raise InvalidRequest("best_response needs an opponent, such as best_response:tic_tac_toe_rules")
    opponent = str(spelling).partition(":")[2]
    return BestResponseAgent(game, make_opponent(opponent))


def _after(game: Game, state: State, action: int) -> State:
    after = state.copy()
    core.play(game, after, action)
    return after
