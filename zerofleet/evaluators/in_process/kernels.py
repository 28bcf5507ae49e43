"""Perceptron of hidden layers of sigmoids and one sigmoid output; compiled.

    z_j = b_j + sum over the inputs i of x_i w_ij        h_j = s(z_j)        V = s(b + sum over j of u_j h_j)

Its output is a probability of winning. Most have one hidden layer; further layers have as many units, and read the activations
of the layer below. Encodings are sparse, so the first hidden layer is the sum of the weight rows of the inputs that are not 0
(about 50 of Connect Four's 126), which lie contiguously in memory.

`hidden_and_value` computes in double precision with the exact sigmoid, for learning. `values` is for play: float32, on bits,
with a rational approximation of the sigmoid that vectorises; it differs by less than 1e-6. A network that reads other numbers
than bits is folded first (`zerofleet.evaluators.in_process.inputs`).

Axes: I inputs, H units of a hidden layer, M hidden layers after the first, B positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from games.compiled import compiled

__all__ = ["Perceptron", "hidden_and_value", "perceptron_of", "set_bits", "values", "weights_by_name"]

_ONE, _HALF = np.float32(1.0), np.float32(0.5)
# tanh(x) = x p(x^2) / q(x^2) for |x| < 7.9, where float32's tanh is 1: the minimax coefficients of Eigen (MathFunctionsImpl.h).
_LIMIT = np.float32(7.90531110763549805)
_P = tuple(
    np.float32(c)
    for c in (
        4.89352455891786e-03,
        6.37261928875436e-04,
        1.48572235717979e-05,
        5.12229709037114e-08,
        -8.60467152213735e-11,
        2.00018790482477e-13,
        -2.76076847742355e-16,
    )
)
_Q = tuple(np.float32(c) for c in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06))
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = _P
_Q0, _Q1, _Q2, _Q3 = _Q
_LANES = 16  # partial sums of the output, so that its loop vectorises


class Perceptron(NamedTuple):
    """Weights, all float32 or all float64."""

    hidden: np.ndarray  # [I, H]; row i holds the weights of input i
    hidden_bias: np.ndarray  # [H]
    out: np.ndarray  # [H]
    out_bias: np.ndarray  # [1]
    deep: np.ndarray  # [M, H, H]; row i of layer m holds the weights of unit i of the layer below
    deep_bias: np.ndarray  # [M, H]


def perceptron_of(weights: Mapping[str, np.ndarray]) -> Perceptron:
    """Return the network of weights by name. One without `deep` and `deep_bias` has one hidden layer, as older ones have."""
    units, kind = len(weights["out"]), weights["out"].dtype
    return Perceptron(**{"deep": np.zeros((0, units, units), kind), "deep_bias": np.zeros((0, units), kind), **weights})


def weights_by_name(net: Perceptron) -> dict[str, np.ndarray]:
    """Return the arrays of a network by name, without those of further layers if it has one: the reverse of `perceptron_of`."""
    return {name: array for name, array in net._asdict().items() if array.size}


@compiled
def set_bits(packed: np.ndarray, inputs: int, out: np.ndarray) -> int:
    """Write the numbers of the set bits of `packed` (uint8 [packed_bytes]) into `out` (int32 [I]); return their count."""
    count = 0
    for byte in range(packed.shape[0]):
        rest = int(packed[byte])
        bit = byte << 3
        while rest:
            if rest & 1 and bit < inputs:
                out[count] = bit
                count += 1
            rest >>= 1
            bit += 1
    return count


@compiled
def hidden_and_value(net: Perceptron, x: np.ndarray, active: np.ndarray, count: int, hidden: np.ndarray) -> float:
    """Write the activations of all hidden layers into `hidden` ([M + 1, H]) and return V, in (0, 1).

    `x`: inputs [I], of which the first `count` of `active` are not 0.
    """
    units = net.hidden_bias.shape[0]
    here = hidden[0]
    for j in range(units):
        here[j] = net.hidden_bias[j]
    for k in range(count):
        row, number = net.hidden[active[k]], x[active[k]]
        for j in range(units):
            here[j] += number * row[j]
    for layer in range(net.deep_bias.shape[0]):
        below, here = hidden[layer], hidden[layer + 1]
        for j in range(units):
            below[j] = 1.0 / (1.0 + math.exp(-below[j]))
            here[j] = net.deep_bias[layer, j]
        for i in range(units):
            row, number = net.deep[layer, i], below[i]
            for j in range(units):
                here[j] += number * row[j]
    total = net.out_bias[0]
    for j in range(units):
        here[j] = 1.0 / (1.0 + math.exp(-here[j]))
        total += net.out[j] * here[j]
    return 1.0 / (1.0 + math.exp(-total))


@compiled
def _sigmoid(x: np.float32) -> np.float32:
    """Return the sigmoid by way of tanh(x / 2)."""
    half = min(max(x * _HALF, -_LIMIT), _LIMIT)
    square = half * half
    p = _P6 * square + _P5
    p = p * square + _P4
    p = p * square + _P3
    p = p * square + _P2
    p = p * square + _P1
    p = p * square + _P0
    q = _Q3 * square + _Q2
    q = q * square + _Q1
    q = q * square + _Q0
    return _HALF * (half * p / q) + _HALF


@compiled
def _ascend(net: Perceptron, layer: int, hidden: np.ndarray, below: np.ndarray) -> None:
    """Replace the sums z of a hidden layer (float32 [H or more]) by those of further layer `layer`; `below` is scratch."""
    units = net.deep_bias.shape[1]
    for j in range(units):
        below[j] = _sigmoid(hidden[j])
        hidden[j] = net.deep_bias[layer, j]
    for i in range(units):
        row, number = net.deep[layer, i], below[i]
        for j in range(units):
            hidden[j] += number * row[j]


@compiled
def values(net: Perceptron, packed: np.ndarray, out: np.ndarray) -> None:
    """Evaluate positions for play.

    `net` is float32, `packed` uint8 [B, packed_bytes]; V of each position is written into `out` (float32 [B]), in [0, 1].
    """
    inputs, units = net.hidden.shape
    padded = (units + _LANES - 1) // _LANES * _LANES
    hidden = np.zeros(padded, dtype=np.float32)
    below = np.zeros(padded, dtype=np.float32)
    weights = np.zeros(padded, dtype=np.float32)
    weights[:units] = net.out
    bits = np.empty(inputs, dtype=np.int32)
    lanes = np.empty(_LANES, dtype=np.float32)
    for b in range(packed.shape[0]):
        count = set_bits(packed[b], inputs, bits)
        hidden[:units] = net.hidden_bias
        for k in range(count):
            row = net.hidden[bits[k]]
            for j in range(units):
                hidden[j] += row[j]
        for layer in range(net.deep_bias.shape[0]):
            _ascend(net, layer, hidden, below)
        lanes[:] = np.float32(0.0)
        for first in range(0, padded, _LANES):
            for lane in range(_LANES):
                lanes[lane] += weights[first + lane] * _sigmoid(hidden[first + lane])
        total = net.out_bias[0]
        for lane in range(_LANES):
            total += lanes[lane]
        out[b] = min(max(_sigmoid(total), np.float32(0.0)), _ONE)
