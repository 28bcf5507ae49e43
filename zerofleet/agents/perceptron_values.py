"""Values of successor positions by a small perceptron, inside compiled searches: no call of Python for each position.

An evaluator in this process may offer its networks in this form (`zerofleet.evaluators.in_process.perceptrons`). The numbers
are those of its evaluation by batch, bit for bit, because the same compiled function computes them.

Axes: D plies from the root, L maximum legal actions, S state entries, P players.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import compiled
from games.core import Game, State
from games.positions import copy_state
from zerofleet.agents.base import SUREST, Evaluate
from zerofleet.evaluators.base import ModelVersion
from zerofleet.evaluators.in_process.kernels import values
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron, PerceptronSource

__all__ = ["Successors", "compiled_network", "evaluate_successors", "new_successors", "play_successors"]

_ONE, _TWO = np.float32(1.0), np.float32(2.0)


class Successors(NamedTuple):
    """Successors of one position at each ply, by place in the list of legal actions, the network that evaluates them, and
    scratch. Games of two players."""

    network: BitPerceptron

    states: np.ndarray  # spec.state_dtype [D, L, S]
    over: np.ndarray  # bool [D, L]
    same: np.ndarray  # bool [D, L], whether the same player moves again
    values: np.ndarray  # float64 [D, L], for the player who moves to them, in [-1, 1]
    packed: np.ndarray  # uint8 [L, packed_bytes], scratch: positions to evaluate
    places: np.ndarray  # int64 [L], scratch: their places
    chances: np.ndarray  # float32 [L], scratch: outputs of the network
    scores: np.ndarray  # float32 [P], scratch


def compiled_network(evaluate: Evaluate | None, version: ModelVersion) -> BitPerceptron | None:
    """Return the network of a version if `evaluate` computes it in this process and compiled code can do so; None otherwise.

    Raises the errors of an evaluation.
    """
    return evaluate.perceptron(version) if isinstance(evaluate, PerceptronSource) else None


def new_successors(game: Game, network: BitPerceptron, plies: int) -> Successors:
    """Return arrays for the successors of one position at each of some plies."""
    spec = game.spec()
    rows = plies, spec.max_legal
    return Successors(
        network=network,
        states=np.zeros((*rows, spec.state_size), dtype=spec.state_dtype),
        over=np.zeros(rows, dtype=np.bool_),
        same=np.zeros(rows, dtype=np.bool_),
        values=np.zeros(rows),
        packed=np.zeros((spec.max_legal, spec.packed_bytes), dtype=np.uint8),
        places=np.zeros(spec.max_legal, dtype=np.int64),
        chances=np.zeros(spec.max_legal, dtype=np.float32),
        scores=np.zeros(spec.num_players, dtype=np.float32),
    )


@compiled
def play_successors(game: Game, state: State, actions: np.ndarray, ply: int, found: Successors) -> None:
    """Write the successors of `state` after `actions` ([n]) at `ply`, with the values of terminal ones."""
    mover = core.to_move(game, state)
    for i in range(actions.shape[0]):
        child = found.states[ply, i]
        copy_state(state, child)
        core.play(game, child, actions[i])
        found.over[ply, i] = core.is_over(game, child)
        if found.over[ply, i]:
            core.scores(game, child, found.scores)
            found.values[ply, i] = found.scores[mover]
        else:
            found.same[ply, i] = core.to_move(game, child) == mover


@compiled
def evaluate_successors(game: Game, count: int, ply: int, found: Successors) -> int:
    """Write the network's values of the first `count` successors that are not terminal; return their number."""
    network, asked = found.network, 0
    for i in range(count):
        if not found.over[ply, i]:
            child, packed = found.states[ply, i], found.packed[asked]
            core.encode(game, child, core.to_move(game, child), packed)
            for byte in range(packed.shape[0]):
                packed[byte] &= network.read[byte]
            found.places[asked] = i
            asked += 1
    values(network.net, found.packed[:asked], found.chances[:asked])
    for k in range(asked):
        i = found.places[k]
        value = float(network.sign * (_TWO * found.chances[k] - _ONE))  # for the player to move there
        if not found.same[ply, i]:
            value = -value
        found.values[ply, i] = min(max(value, -SUREST), SUREST)
    return asked
