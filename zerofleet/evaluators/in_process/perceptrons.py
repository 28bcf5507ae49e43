"""Networks of values as arrays, for compiled code that evaluates positions by itself."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from games.core import GameSpec
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.inputs import bits_read, folded, input_table
from zerofleet.evaluators.in_process.kernels import Perceptron

__all__ = ["BitPerceptron", "PerceptronSource", "bit_perceptron"]


class BitPerceptron(NamedTuple):
    """Perceptron that reads the bits of a position. With V its output, the player to move has the value sign (2 V - 1)."""

    net: Perceptron  # float32; its inputs are the bits
    read: np.ndarray  # uint8 [packed_bytes], mask of the bits to read
    sign: np.float32


@runtime_checkable
class PerceptronSource(Protocol):
    """Blocking evaluation in this process that may also offer the network itself."""

    def __call__(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """Evaluate every leaf with exactly this model version, at once; raises the errors of `Evaluator.evaluate`."""
        ...

    def perceptron(self, version: ModelVersion) -> BitPerceptron | None:
        """Return the network of a version, None where it is of another kind; raises the errors of an evaluation."""
        ...


def bit_perceptron(net: Perceptron, spec: GameSpec, *, sign: float) -> BitPerceptron:
    """Return a perceptron in the form that `kernels.values` evaluates.

    Args:
        net: Reads the inputs of the game (`GameSpec.num_inputs`), in any type.
        spec: The game.
        sign: -1 if V is the chance of the player who has just moved, 1 if that of the player to move.
    """
    table = input_table(spec)
    rows, bias = folded(table, net.hidden, net.hidden_bias)
    fast = net._replace(hidden=rows, hidden_bias=bias)
    single = Perceptron(*(np.ascontiguousarray(array, dtype=np.float32) for array in fast))
    return BitPerceptron(single, bits_read(table), np.float32(sign))
