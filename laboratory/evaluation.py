"""Evaluator of networks that are in memory, without store and requests: the perceptrons of TD(lambda), and functions of a
game's own."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from games.core import GameSpec
from laboratory.divergence import require_finite
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.kernels import Perceptron, values
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron, bit_perceptron
from zerofleet.evaluators.in_process.values import Values
from zerofleet.evaluators.uniform import uniform_policy

__all__ = ["FunctionNetwork", "MemoryEvaluator", "Network", "ValueNetwork"]


class Network(Protocol):
    """Network of values of a game of two players."""

    @property
    def perceptron(self) -> BitPerceptron | None:
        """Network for compiled code, None for one of another kind."""
        ...

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return the value of positions (uint8 [B, packed_bytes]) for the player to move and the other, float32 [B, 2]."""
        ...


class ValueNetwork:
    """Perceptron in single precision, as play uses it."""

    def __init__(self, net: Perceptron, spec: GameSpec, *, sign: float) -> None:
        """Copy weights of any type. `sign`: -1 if they give the chance of the player who has just moved.

        Raises `ValueError` for weights of another number of inputs than the game has, `Diverged` for weights that are not
        finite in single precision.
        """
        if net.hidden.shape[0] != spec.num_inputs:
            raise ValueError(f"the network has {net.hidden.shape[0]} inputs, {spec.name} has {spec.num_inputs}")
        with np.errstate(over="ignore"):
            self.perceptron = bit_perceptron(net, spec, sign=sign)
            """Network for compiled code."""
        require_finite("weights", *self.perceptron.net, rate="td_lambda.learning_rate")

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return the value of positions (uint8 [B, packed_bytes]) for the player to move and the other, float32 [B, 2]."""
        chances = np.empty(len(states), np.float32)
        values(self.perceptron.net, states & self.perceptron.read, chances)
        mine = self.perceptron.sign * (2.0 * chances - 1.0)
        return np.stack([mine, -mine], axis=1).astype(np.float32)


class FunctionNetwork:
    """Values by a function of a game's own, which is called in one thread at a time."""

    perceptron = None

    def __init__(self, values_of: Values) -> None:
        self._values_of = values_of

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """See `Network.__call__`."""
        mine = self._values_of(np.ascontiguousarray(states))
        return np.stack([mine, -mine], axis=1)


class MemoryEvaluator:
    """Evaluator of one network under every version; its policy is uniform. See `zerofleet.evaluators.base.Evaluator`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __call__(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """See `PerceptronSource.__call__`."""
        return Evaluation(uniform_policy(batch.legal), self._network(batch.states), version)

    def perceptron(self, version: ModelVersion) -> BitPerceptron | None:
        """See `PerceptronSource.perceptron`."""
        del version
        return self._network.perceptron

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: no effect."""
        return self(batch, version)
