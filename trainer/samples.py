"""Training samples: the searched positions of a finished game, encoded for the player to move.

Axes: N samples, L most legal actions of any position, P players.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from games import core
from games.compiled import compiled
from games.core import GameSpec
from zerofleet.records import SearchColumns, ValidatedGame
from zerofleet.search.played import FULL_SEARCH

__all__ = ["Samples", "extract"]


@dataclass(frozen=True, slots=True)
class Samples:
    """Positions and what was learned of them, in the compact form in which they are kept."""

    states: np.ndarray  # uint8 [N, packed_bytes], as `encode` writes them
    legal: np.ndarray  # int16 [N, L], padded with -1
    policy: np.ndarray  # float16 [N, L], target probability of each legal action, 0 at padding
    value: np.ndarray  # float32 [N, P], target score in [-1, 1]; index 0 is the player to move, then seat order

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def empty(cls, spec: GameSpec, count: int) -> Samples:
        """Return room for `count` samples; the content is arbitrary."""
        return cls(
            states=np.empty((count, spec.packed_bytes), np.uint8),
            legal=np.empty((count, spec.max_legal), np.int16),
            policy=np.empty((count, spec.max_legal), np.float16),
            value=np.empty((count, spec.num_players), np.float32),
        )

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The four arrays, in the order of the fields."""
        return self.states, self.legal, self.policy, self.value


def extract(played: ValidatedGame, *, search_value_share: float) -> Samples:
    """Return a sample for each fully searched move.

    The policy target is the record's; the value target is `1 - search_value_share` of the final scores and the rest of the
    root's value, both seen by the player to move.
    """
    search = played.search
    rows = np.flatnonzero(search.flags & FULL_SEARCH)
    samples = Samples.empty(played.game.spec(), len(rows))
    policy = np.zeros(samples.policy.shape, np.float32)  # numba cannot store float16
    _fill(played.game, played.states, played.movers, search.ply[rows], samples.states, samples.legal)
    _fill_policy(rows, search.start, search.actions, search.policy, samples.legal, policy)
    samples.policy[:] = policy
    samples.value[:] = _value_targets(played, search, rows, search_value_share)
    return samples


@compiled
def _fill(
    game: Any, states: np.ndarray, movers: np.ndarray, plies: np.ndarray, out_states: np.ndarray, out_legal: np.ndarray
) -> None:
    """Encode the position before each ply for its mover, and list its legal actions."""
    for i, ply in enumerate(plies):
        core.encode(game, states[ply], movers[ply], out_states[i])
        out_legal[i, core.legal_actions(game, states[ply], out_legal[i]) :] = -1


@compiled
def _fill_policy(
    rows: np.ndarray, start: np.ndarray, actions: np.ndarray, policy: np.ndarray, legal: np.ndarray, out: np.ndarray
) -> None:
    """Put each listed action's target beside the same legal action; both lists ascend."""
    for i in range(len(rows)):
        column = 0
        for j in range(start[rows[i]], start[rows[i] + 1]):
            while legal[i, column] != actions[j]:
                column += 1
            out[i, column] = policy[j]


def _value_targets(played: ValidatedGame, search: SearchColumns, rows: np.ndarray, share: float) -> np.ndarray:
    """Return float32 [N, P]: scores and root values mixed, rotated so that the player to move comes first."""
    movers = played.movers[search.ply[rows]].astype(np.int64)
    players = len(played.scores)
    seats = (movers[:, None] + np.arange(players)) % players  # int64 [N, P]
    mixed = (1.0 - share) * played.scores[None] + share * search.root_value[rows]
    return np.take_along_axis(mixed, seats, axis=1).astype(np.float32)
