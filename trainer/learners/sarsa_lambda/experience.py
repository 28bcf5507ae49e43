"""Experience of the learner: the moves of a game as features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from games import core, positions
from games.compiled import compiled
from trainer.learners.sarsa_lambda.rule import ENDED, NONE, Episode
from zerofleet.agents.by_game.rhombus.values import Seen, describe, new_seen
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import RecordRejected
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings

__all__ = ["Experience", "read_experience"]


@dataclass(frozen=True, slots=True)
class Experience:
    """Samples of one game: the moves from which its seats learn."""

    episode: Episode

    def __len__(self) -> int:
        """Return the number of moves."""
        return len(self.episode.seats)


class _Reading(NamedTuple):
    """Rows of a record that are learned from."""

    states: np.ndarray  # uint64 [n + 1, S]
    plies: np.ndarray  # int32 [N]
    start: np.ndarray  # int32 [N + 1], first entry of each row's pool; zeros where no pool is read
    pool: np.ndarray  # int32 [K], moves of the pools, or the replies to the moves
    replies: bool
    seen: Seen
    after: np.ndarray  # uint64 [S], scratch
    packed: np.ndarray  # uint8 [packed_bytes], scratch
    scores: np.ndarray  # float32 [P], scratch


def read_experience(played: ValidatedGame, settings: SarsaLambdaSettings) -> Experience:
    """Return the moves of a validated game that a player chose, on the seats that learn, as features.

    Rewards are the scores: 1 for a win, -1 for a loss, the lead in levels as a share for a game stopped at the ply cap.
    Raises `RecordRejected` where the method needs the pools of the moves and the record has none.
    """
    search, record = played.search, played.record
    rows = np.arange(len(search.ply))
    if record.learner_seat:
        rows = rows[played.movers[search.ply] == record.learner_seat - 1]
    pooled = _pools(played, rows, settings)
    sizes = [len(pool) for pool in pooled]
    width = max(sizes, default=0)
    spec = played.game.spec()
    reading = _Reading(
        states=played.states,
        plies=search.ply[rows],
        start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int32),
        pool=np.concatenate([*pooled, np.zeros(0, np.int32)]).astype(np.int32),
        replies=settings.method == "td_leaf",
        seen=new_seen(),
        after=np.zeros(spec.state_size, np.uint64),
        packed=np.zeros(spec.packed_bytes, np.uint8),
        scores=np.zeros(spec.num_players, np.float32),
    )
    features = len(reading.seen.features)
    episode = Episode(
        features=np.zeros((len(rows), features)),
        phases=np.full(len(rows), NONE, np.int64),
        seats=played.movers[search.ply[rows]].astype(np.int64),
        exploratory=(search.flags[rows] & EXPLORATORY) != 0,
        pool_features=np.zeros((len(rows), width, features)),
        pool_phases=np.full((len(rows), width), NONE, np.int64),
        pool_rewards=np.zeros((len(rows), width)),
        rewards=played.scores.astype(np.float64),
    )
    _describe_rows(played.game, reading, episode)
    return Experience(episode)


def _pools(played: ValidatedGame, rows: np.ndarray, settings: SarsaLambdaSettings) -> list[np.ndarray]:
    """Return the moves beside each row that the method needs: the pool, the replies to the move, or none."""
    search, record = played.search, played.record
    if settings.method == "td_leaf":
        return [np.array(positions.legal(played.game, played.states[ply + 1]), np.int32) for ply in search.ply[rows]]
    if settings.method != "q_learning":
        return [np.zeros(0, np.int32) for _ in rows]
    pooled = [search.pool[search.pool_start[row] : search.pool_start[row + 1]] for row in rows]
    if not all(len(pool) for pool in pooled):
        raise RecordRejected(
            "search",
            f"game {record.uid!r} of worker {record.worker_id!r}: a move without its pool, from which "
            "sarsa_lambda.method=q_learning learns; set afterstates.pool on the workers",
        )
    return pooled


@compiled
def _describe_rows(game: Any, reading: _Reading, out: Episode) -> None:
    """Write features and phases of the positions after the moves of a reading and, where wanted, after those of their pools.

    After a reply the player who has just moved is the other one, so the features change their sign.
    """
    for row in range(reading.plies.shape[0]):
        ply = reading.plies[row]
        out.phases[row] = _describe_state(game, reading, reading.states[ply + 1], out.features[row])
        for rank in range(reading.start[row + 1] - reading.start[row]):
            reading.after[:] = reading.states[ply + 1] if reading.replies else reading.states[ply]
            core.play(game, reading.after, reading.pool[reading.start[row] + rank])
            phase = _describe_state(game, reading, reading.after, out.pool_features[row, rank])
            out.pool_phases[row, rank] = phase
            if phase == ENDED:
                core.scores(game, reading.after, reading.scores)
                out.pool_rewards[row, rank] = reading.scores[out.seats[row]]
            elif reading.replies:
                for i in range(out.pool_features.shape[2]):
                    out.pool_features[row, rank, i] *= -1.0


@compiled
def _describe_state(game: Any, reading: _Reading, state: np.ndarray, features: np.ndarray) -> int:
    """Write the features of a position for the player who has just moved, and return its phase."""
    if core.is_over(game, state):
        return ENDED
    core.encode(game, state, int(np.int64(core.to_move(game, state))), reading.packed)
    describe(reading.packed, reading.seen)
    features[:] = reading.seen.features
    return reading.seen.phase[0]  # type: ignore[no-any-return]
