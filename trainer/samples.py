"""Training samples: searched positions of a finished game, encoded for the player to move.

Axes: N samples, L most legal actions of any position, P players.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from games import core
from games.compiled import compiled
from games.core import GameSpec
from trainer.value_targets import value_targets
from zerofleet.contracts.played import FULL_SEARCH, REDUCED
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError
from zerofleet.presets import TrainSettings

__all__ = ["PolicyTarget", "Samples", "extract", "require_target"]

PolicyTarget = Literal["search", "counter"]


@dataclass(frozen=True, slots=True)
class Samples:
    """Positions and their targets, in compact storage form."""

    states: np.ndarray  # uint8 [N, packed_bytes], as `encode` writes them
    legal: np.ndarray  # int16 [N, L], padded with -1
    policy: np.ndarray  # float16 [N, L], target probability of each legal action, 0 at padding
    value: np.ndarray  # float32 [N, P], target score in [-1, 1]; index 0 is the player to move, then seat order
    opponents: np.ndarray  # int16 [N, P - 1], choices of the others in the same round, next seat first; -1 if none
    plies_left: np.ndarray  # float32 [N], plies still played as a share of max_plies, in [0, 1]; -1 if unknown
    reply: np.ndarray  # int16 [N], the next move if another player made it in a game of perfect information; else -1
    weight: np.ndarray  # float32 [N], above 0: weight of all losses of the sample; usually 1

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def empty(cls, spec: GameSpec, count: int) -> Samples:
        """Allocate `count` samples with arbitrary content."""
        return cls(
            states=np.empty((count, spec.packed_bytes), np.uint8),
            legal=np.empty((count, spec.max_legal), np.int16),
            policy=np.empty((count, spec.max_legal), np.float16),
            value=np.empty((count, spec.num_players), np.float32),
            opponents=np.empty((count, spec.num_players - 1), np.int16),
            plies_left=np.empty(count, np.float32),
            reply=np.empty(count, np.int16),
            weight=np.empty(count, np.float32),
        )

    @classmethod
    def from_rows(cls, rows: np.ndarray, spec: GameSpec) -> Samples:
        """Return the samples that `to_rows` serialised into `rows`, uint8 [N, n], which may be a part of its result."""
        kind = cls.empty(spec, 0).row_type
        table = np.ascontiguousarray(rows).view(kind)[:, 0]
        return cls(*(np.ascontiguousarray(table[name]) for name in _NAMES))

    def to_rows(self) -> np.ndarray:
        """Serialise the samples, uint8 [N, n], a row for each; `n` is the same for all samples of a game."""
        kind = self.row_type
        table = np.empty(len(self), kind)
        for name, array in zip(_NAMES, self.arrays, strict=True):
            table[name] = array
        return table.view(np.uint8).reshape(len(self), kind.itemsize)

    @property
    def row_type(self) -> np.dtype[np.void]:
        """Layout of a row: the fields of a sample one after another."""
        return np.dtype([(name, array.dtype, array.shape[1:]) for name, array in zip(_NAMES, self.arrays, strict=True)])

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of the fields."""
        return self.states, self.legal, self.policy, self.value, self.opponents, self.plies_left, self.reply, self.weight


_NAMES = tuple(field.name for field in fields(Samples))


def require_target(spec: GameSpec, policy_target: PolicyTarget) -> None:
    """Raise `ConfigurationError` if the game does not support the policy target."""
    if policy_target == "counter" and spec.counters is None:
        raise ConfigurationError(
            f"train.policy_target=counter needs a game decided by one simultaneous choice; {spec.name} defines no action "
            "that beats another; set train.policy_target=search"
        )


def extract(played: ValidatedGame, settings: TrainSettings) -> Samples:
    """Return a sample for each fully searched move, and for each move of an agent marked for training.

    The policy target is the record's or, with `policy_target` `counter`, the actions that would have beaten the opponents'
    choices of the same round (`require_target`); positions without such choices keep the record's. For the value target see
    `trainer.value_targets`. Reduced searches have the weight `reduced_weight` and are left out if it is 0. Lengths of agents'
    games are no target: a model's games differ.
    """
    search, spec = played.search, played.game.spec()
    weights = np.where(search.flags & REDUCED, settings.reduced_weight, 1.0)
    rows = np.flatnonzero((search.flags & FULL_SEARCH != 0) & (weights > 0.0))
    plies = search.ply[rows]
    samples = Samples.empty(spec, len(rows))
    policy = np.zeros(samples.policy.shape, np.float32)  # numba cannot store float16
    _fill(played.game, played.states, played.movers, plies, samples.states, samples.legal)
    moves = np.array(played.record.moves[:], np.int64)
    _fill_opponents(played.game, played.states, played.movers, moves, plies, samples.opponents)
    _fill_policy(rows, search.start, search.actions, search.policy, samples.legal, policy)
    if settings.policy_target == "counter" and spec.counters is not None:
        _counter(spec.counters, samples.opponents, samples.legal, policy)
    samples.policy[:] = policy
    is_length_unknown = played.record.resigned_seat or any(played.record.seat_agents)
    samples.plies_left[:] = -1.0 if is_length_unknown else (len(played.movers) - plies) / spec.max_plies
    samples.reply[:] = _replies(played.movers, moves, plies) if spec.information == "perfect" else -1
    samples.value[:] = value_targets(played, rows, settings)
    samples.weight[:] = weights[rows]
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
def _fill_opponents(
    game: Any, states: np.ndarray, movers: np.ndarray, moves: np.ndarray, plies: np.ndarray, out: np.ndarray
) -> None:
    """List the choices of the other players in the round of each ply; the plies of a round are adjacent."""
    players = out.shape[1] + 1
    out[:] = -1
    for i, ply in enumerate(plies):
        round_number = core.round_of(game, states[ply])
        if round_number < 0:
            continue
        for step in (-1, 1):
            other = ply + step
            while 0 <= other < len(movers) and core.round_of(game, states[other]) == round_number:
                if movers[other] != movers[ply]:
                    out[i, (movers[other] - movers[ply]) % players - 1] = moves[other]
                other += step


def _replies(movers: np.ndarray, moves: np.ndarray, plies: np.ndarray) -> np.ndarray:
    """Return int16 [N]: the move after each ply, -1 where there is none or the same player made it."""
    following = np.minimum(plies + 1, len(moves) - 1)  # the last ply is its own follower, hence of the same player
    return np.where(movers[following] != movers[plies], moves[following], -1).astype(np.int16)


@compiled
def _counter(counters: np.ndarray, opponents: np.ndarray, legal: np.ndarray, policy: np.ndarray) -> None:
    """Write into `policy` (float32 [N, L]) the actions that beat the opponents' choices, in equal parts if several."""
    for i in range(len(opponents)):
        listed = np.count_nonzero(opponents[i] >= 0)
        if not listed:
            continue
        policy[i] = 0.0
        for chosen in opponents[i]:
            for column in range(legal.shape[1]):
                if chosen >= 0 and legal[i, column] == counters[chosen]:
                    policy[i, column] += 1.0 / listed


@compiled
def _fill_policy(
    rows: np.ndarray, start: np.ndarray, actions: np.ndarray, policy: np.ndarray, legal: np.ndarray, out: np.ndarray
) -> None:
    """Copy each searched action's target to the column of the same legal action; both lists ascend."""
    for i in range(len(rows)):
        column = 0
        for j in range(start[rows[i]], start[rows[i] + 1]):
            while legal[i, column] != actions[j]:
                column += 1
            out[i, column] = policy[j]
