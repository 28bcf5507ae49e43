"""Games of agents as training records: the policy target of each move, and the choice of moves that become samples.

Positions with a single legal move are not samples, nor are the random plies of the opening.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from games import core, positions
from games.core import Game, State
from selfplay_worker.openings import random_opening
from zerofleet.agents import Agent, PolicyAgent, make_agent
from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.contracts.played import FULL_SEARCH, without_searches
from zerofleet.contracts.records import encode_record
from zerofleet.presets.warm_start import NumberedGame, WarmStartSettings, game_of, seatings_of
from zerofleet.search import EXTERNAL, PlayedGame, SearchedMove
from zerofleet.search.history import fixed_points

__all__ = ["Teachers", "one_hot", "shares_of_target"]

_STREAM = 2  # separates the agents' randomness from other draws from the seed of a game


class Teachers:
    """Agents of a warm start. Thread-safe: several threads may play at once."""

    def __init__(self, game: Game, settings: WarmStartSettings, *, opening_plies: int = 0) -> None:
        """Make the agents for `game`. Raises `ConfigurationError`; `InvalidRequest` for agents that cannot play it."""
        self.game = game_of(game, settings)
        self._settings = settings
        self._opening_plies = opening_plies
        names = {name for seating in seatings_of(game, settings) for name in seating}
        self._agents: dict[str, Agent] = {name: make_agent(name, self.game) for name in sorted(names)}
        self._say: dict[str, PolicyAgent | None] = {
            name: agent if isinstance(agent, PolicyAgent) and settings.policy == "agent" else None
            for name, agent in self._agents.items()
        }

    def play(self, numbered: NumberedGame, stopping: Callable[[], bool] = lambda: False) -> PlayedGame | None:
        """Return the game with the moves to learn from; None if `stopping` returned true before its end."""
        game, seed = self.game, numbered.seed
        rng = np.random.default_rng([seed, _STREAM])
        moves = random_opening(game, seed=seed, most_plies=self._opening_plies)
        opening_plies = len(moves)
        state = positions.replay(game, moves, seed)
        taught: list[tuple[int, SearchedMove]] = []  # mover and target
        while not core.is_over(game, state):
            if stopping():
                return None
            seat, legal = int(core.to_move(game, state)), positions.legal(game, state)
            action = legal[0]
            if len(legal) > 1:
                action, move = self._move(numbered.agents[seat], state, legal, ply=len(moves), rng=rng)
                taught.append((seat, move))
            moves.append(action)
            core.play(game, state, action)
        scores = positions.final_scores(game, state)
        return PlayedGame(
            game=game,
            seed=seed,
            versions=(EXTERNAL,) * len(scores),
            opening_plies=opening_plies,
            moves=np.array(moves, dtype=np.int32),
            searched=tuple(move for seat, move in taught if not self._settings.winner_only or _won_alone(seat, scores)),
            scores=scores,
            resigned_seat=None,
            resignation_control=False,
            tag=None,
        )

    def record(self, numbered: NumberedGame, played: PlayedGame, *, worker_id: str) -> bytes:
        """Return the record of a game; one too long with its policies stores one-hot targets instead."""
        names = [self._agents[agent].name for agent in numbered.agents]
        payload = encode_record(played, worker_id=worker_id, uid=numbered.uid, agents=names)
        if len(payload) > MAX_RECORD_BYTES:
            payload = encode_record(without_searches(played), worker_id=worker_id, uid=numbered.uid, agents=names)
        return payload

    def _move(
        self, name: str, state: State, legal: list[int], *, ply: int, rng: np.random.Generator
    ) -> tuple[int, SearchedMove]:
        """Choose an agent's move; return its action and target."""
        says = self._say[name]
        if says is None:
            action = self._agents[name].choose(self.game, state, rng).action
            return action, one_hot(ply, action)
        sums = np.cumsum(policy := says.policy(self.game, state))
        action = legal[min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), len(legal) - 1)]
        return action, shares_of_target(ply, legal, policy)


def one_hot(ply: int, action: int) -> SearchedMove:
    """Return the one-hot target of a move that was played."""
    return _taught(ply, np.array([action]), np.ones(1), np.empty(0))


def shares_of_target(ply: int, legal: list[int], policy: np.ndarray) -> SearchedMove:
    """Return the target of a policy over the legal moves, float [n], in integer units that sum to one exactly."""
    units = fixed_points(policy.astype(np.float64))
    kept = np.flatnonzero(units)
    return _taught(ply, np.array(legal)[kept], np.zeros(len(kept)), units[kept])


def _taught(ply: int, actions: np.ndarray, visits: np.ndarray, target: np.ndarray) -> SearchedMove:
    return SearchedMove(
        ply=ply,
        model_version=0,
        actions=actions.astype(np.int32),
        visits=visits.astype(np.int32),
        target=target.astype(np.uint16),
        root_value=np.empty(0, dtype=np.float32),
        flags=FULL_SEARCH,
    )


def _won_alone(seat: int, scores: tuple[float, ...]) -> bool:
    """Return whether every other player scored less."""
    return all(scores[seat] > score for other, score in enumerate(scores) if other != seat)
