"""Evaluator of networks that are in memory: the perceptrons of TD(lambda), without store and requests."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search.afterstates.perceptron import Perceptron, values

__all__ = ["MemoryEvaluator", "for_play", "value_of_mover"]


def for_play(net: Perceptron) -> Perceptron:
    """Return the weights in single precision, as play uses them."""
    return Perceptron(*(np.ascontiguousarray(array, dtype=np.float32) for array in net))


def value_of_mover(net: Perceptron, states: np.ndarray, sign: float) -> np.ndarray:
    """Return the value of each position (uint8 [B, packed_bytes]) for its player to move and the other, float32 [B, 2].

    `sign`: -1 if the network gives the chance of the player who has just moved.
    """
    chances = np.empty(len(states), np.float32)
    values(net, states, chances)
    mine = np.float32(sign) * (2.0 * chances - 1.0)
    return np.stack([mine, -mine], axis=1).astype(np.float32)


class MemoryEvaluator:
    """Evaluator of one network under every version; its policy is uniform. See `zerofleet.evaluators.base.Evaluator`."""

    def __init__(self, net: Perceptron, sign: float) -> None:
        """`net` in single precision; `sign` as in `value_of_mover`."""
        self._net = net
        self._sign = sign

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: no effect."""
        return self.evaluate_now(batch, version)

    def evaluate_now(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """See `ImmediateEvaluator.evaluate_now`."""
        listed: Any = batch.legal >= 0
        policy = listed / np.maximum(listed.sum(axis=1, keepdims=True), 1)
        return Evaluation(policy.astype(np.float16), value_of_mover(self._net, batch.states, self._sign), version)
