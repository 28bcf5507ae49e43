"""Afterstates: the successor positions of the legal moves, evaluated by a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.positions import copy_state
from zerofleet.agents.base import SUREST, Evaluate
from zerofleet.evaluators.base import LeafBatch, ModelVersion

__all__ = ["Afterstates", "afterstates_of", "mover_values", "values_of"]

_PADDING = -1


class Afterstates(NamedTuple):
    """Successor positions of n moves."""

    actions: np.ndarray  # int16 [n]
    packed: np.ndarray  # uint8 [n, packed_bytes], from the view of the player to move there
    legal: np.ndarray  # int16 [n, L], padded with -1
    movers: np.ndarray  # int64 [n], player to move there
    over: np.ndarray  # bool [n]
    scores: np.ndarray  # float32 [n, P], set where the game is over
    state: np.ndarray  # spec.state_dtype [S], scratch


def mover_values(game: Game, state: State, actions: np.ndarray, evaluate: Evaluate, version: ModelVersion) -> np.ndarray:
    """Return the value of each move for the player who makes it, in [-1, 1], float64 [n].

    Terminal positions have their scores, the others the model's values, evaluated in one batch.

    Args:
        game: The rules, of a game with perfect information.
        state: Position before the moves.
        actions: Legal actions, [n].
        evaluate: Evaluator; its exceptions propagate.
        version: Model version.

    Raises:
        ValueError: The model returns a value that is not finite.
    """
    return values_of(afterstates_of(game, state, actions), core.to_move(game, state), evaluate, version)


def values_of(after: Afterstates, mover: int, evaluate: Evaluate, version: ModelVersion) -> np.ndarray:
    """Return the values of afterstates for `mover`, the player who made the moves; see `mover_values`."""
    values = after.scores[:, mover].astype(np.float64)
    going_on = np.flatnonzero(~after.over)
    if len(going_on):
        answer = evaluate(LeafBatch(after.packed[going_on], after.legal[going_on]), version).value
        entry = (mover - after.movers[going_on]) % answer.shape[1]  # a model lists the player to move there first
        said = answer[np.arange(len(going_on)), entry].astype(np.float64)
        if not np.isfinite(said).all():
            raise ValueError(f"model {version} returned values {said.tolist()}; want finite numbers")
        values[going_on] = np.clip(said, -SUREST, SUREST)
    return values


def afterstates_of(game: Game, state: State, actions: np.ndarray) -> Afterstates:
    """Return the successors of `state` after legal `actions` ([n])."""
    spec, count = game.spec(), len(actions)
    after = Afterstates(
        actions=np.asarray(actions, dtype=np.int16),
        packed=np.zeros((count, spec.packed_bytes), dtype=np.uint8),
        legal=np.full((count, spec.max_legal), _PADDING, dtype=np.int16),
        movers=np.zeros(count, dtype=np.int64),
        over=np.zeros(count, dtype=np.bool_),
        scores=np.zeros((count, spec.num_players), dtype=np.float32),
        state=np.zeros(spec.state_size, dtype=spec.state_dtype),
    )
    _write(game, state, after)
    return after


@lean
def _write(game: Game, before: State, after: Afterstates) -> None:
    """Play every action and write its successor."""
    for i in range(after.actions.shape[0]):
        copy_state(before, after.state)
        core.play(game, after.state, after.actions[i])
        after.over[i] = core.is_over(game, after.state)
        if after.over[i]:
            core.scores(game, after.state, after.scores[i])
        else:
            after.movers[i] = core.to_move(game, after.state)
            core.encode(game, after.state, after.movers[i], after.packed[i])
            core.legal_actions(game, after.state, after.legal[i])
