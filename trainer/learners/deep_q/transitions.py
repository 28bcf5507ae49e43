"""Transitions of a game: a move, the reward up to the player's next turn, and that turn with its pool and the move played.

The opponent's reply is folded in: the next position is the one at the player's next turn.

Axes: n transitions, M moves of a pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from games.positions import encode_for
from trainer.learners.deep_q.shaping import shaped
from trainer.learners.queue import SampleQueue
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import RecordRejected
from zerofleet.presets.deep_q import DeepQSettings

__all__ = ["NO_MOVE", "TransitionQueue", "Transitions", "read_transitions"]

NO_MOVE = -1
"""Action of an empty place in a pool, and rank after the last turn."""


class Transitions(NamedTuple):
    """Transitions in the order of play, both seats' one after the other where both learn."""

    states: np.ndarray  # uint8 [n, packed_bytes], seen by the player to move
    actions: np.ndarray  # int32 [n], the move played
    ranks: np.ndarray  # int32 [n], its place in the pool
    margins: np.ndarray  # float32 [n], its score less the best of the pool
    rewards: np.ndarray  # float32 [n], of the player
    ended: np.ndarray  # bool [n], whether the game ended before the player's next turn
    next_states: np.ndarray  # uint8 [n, packed_bytes], zeros where the game ended
    next_pools: np.ndarray  # int32 [n, M], best first, padded with `NO_MOVE`
    next_margins: np.ndarray  # float32 [n, M], scores of that pool less the best of it
    next_ranks: np.ndarray  # int32 [n], of the move played at the next turn, `NO_MOVE` where the game ended
    results: np.ndarray  # float32 [n], score of the game for the player

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.actions)

    @classmethod
    def empty(cls, count: int, *, packed_bytes: int, pool: int) -> Self:
        """Return `count` transitions of zeros."""
        return cls(
            states=np.zeros((count, packed_bytes), np.uint8),
            actions=np.zeros(count, np.int32),
            ranks=np.zeros(count, np.int32),
            margins=np.zeros(count, np.float32),
            rewards=np.zeros(count, np.float32),
            ended=np.ones(count, np.bool_),
            next_states=np.zeros((count, packed_bytes), np.uint8),
            next_pools=np.full((count, pool), NO_MOVE, np.int32),
            next_margins=np.zeros((count, pool), np.float32),
            next_ranks=np.full(count, NO_MOVE, np.int32),
            results=np.zeros(count, np.float32),
        )

    def rows(self, chosen: np.ndarray | slice) -> Self:
        """Return the transitions of these rows."""
        return type(self)(*(column[chosen] for column in self))


@dataclass(frozen=True, slots=True)
class _Turns:
    """Turns of one seat in a record."""

    plies: np.ndarray  # int32 [n]
    moves: np.ndarray  # int32 [n]
    pools: list[np.ndarray]  # int32 [m] each
    margins: list[np.ndarray]  # float32 [m] each
    ranks: np.ndarray  # int32 [n]


def read_transitions(played: ValidatedGame, settings: DeepQSettings, *, pool: int) -> Transitions:
    """Return the transitions of the seats that learn; `pool` is the largest number of moves of a pool.

    The reward is the score of the game at its end (1, -1, or that of the ply cap), and 0 before, plus the shaping. Raises
    `RecordRejected` for a move without a pool, or with one that is too large.
    """
    search, record = played.search, played.record
    seats = range(played.game.spec().num_players) if not record.learner_seat else [record.learner_seat - 1]
    parts = []
    for seat in seats:
        rows = np.flatnonzero(played.movers[search.ply] == seat)
        places = [slice(search.pool_start[row], search.pool_start[row + 1]) for row in rows]
        pools = [search.pool[place] for place in places]
        _require_pools(played, pools, pool)
        moves = np.array([record.moves[ply] for ply in search.ply[rows]], np.int32)
        ranks = np.array([np.flatnonzero(found == move)[0] for found, move in zip(pools, moves, strict=True)], np.int32)
        margins = [search.pool_scores[place] - search.pool_scores[place.start] for place in places]
        turns = _Turns(search.ply[rows], moves, pools, margins, ranks)
        parts.append(_transitions_of(played, turns, seat, settings, pool))
    return Transitions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _transitions_of(played: ValidatedGame, turns: _Turns, seat: int, settings: DeepQSettings, pool: int) -> Transitions:
    game, spec = played.game, played.game.spec()
    count = len(turns.moves)
    found = Transitions.empty(count, packed_bytes=spec.packed_bytes, pool=pool)
    for i, ply in enumerate(turns.plies):
        found.states[i] = encode_for(game, played.states[ply], seat)
    found.actions[:], found.ranks[:], found.results[:] = turns.moves, turns.ranks, played.scores[seat]
    if count == 0:
        return found
    found.next_states[:-1], found.next_ranks[:-1], found.ended[:-1] = found.states[1:], turns.ranks[1:], False
    found.margins[:] = [margins[rank] for margins, rank in zip(turns.margins, turns.ranks, strict=True)]
    for i, (moves, margins) in enumerate(zip(turns.pools[1:], turns.margins[1:], strict=True)):
        found.next_pools[i, : len(moves)], found.next_margins[i, : len(moves)] = moves, margins
    found.rewards[-1] = played.scores[seat]
    if settings.shaping:
        found.rewards[:] += shaped(game, found.states, settings)
    return found


def _require_pools(played: ValidatedGame, pools: list[np.ndarray], most: int) -> None:
    sizes = {len(found) for found in pools}
    if not sizes or (min(sizes) > 0 and max(sizes) <= most):
        return
    record, size = played.record, max(sizes) if min(sizes) else 0
    raise RecordRejected(
        "search",
        f"game {record.uid!r} of worker {record.worker_id!r}: a move with a pool of {size} moves, want 1 to {most}; workers "
        "need selfplay.mode=action_values and a model with this network.pool",
    )


class TransitionQueue(SampleQueue[Transitions, tuple[Transitions, bool]]):
    """Queue of which the learner takes single transitions. One is kept until it has entered the memory."""

    _used = 0  # transitions of the first game that were taken

    def take(self) -> tuple[Transitions, bool]:
        """Remove and return the next transition, and whether it was the last of its game; there must be one."""
        with self._lock:
            game = self._waiting[0]
            taken = game.rows(slice(self._used, self._used + 1))
            self._used += 1
            self._taken += 1
            is_last = self._used == len(game)
            if is_last:
                self._waiting.popleft()
                self._used = 0
            return taken, is_last
