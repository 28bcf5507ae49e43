"""Inputs of a perceptron as weighted sums of the bits of a position (`games.reading`), for compiled code.

Axes: B bits of a position, I inputs, N pairs of a bit and an input that it contributes to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import compiled
from games.core import GameSpec
from games.reading import num_inputs

__all__ = ["InputTable", "bits_read", "folded", "input_table", "read_inputs_of"]


class InputTable(NamedTuple):
    """Inputs of a game's encoding: input i is constant[i] plus the weights of the set bits that contribute to it."""

    starts: np.ndarray  # int32 [B + 1]; the pairs of bit b are starts[b] to starts[b + 1]
    inputs: np.ndarray  # int32 [N]
    weights: np.ndarray  # float64 [N]
    constant: np.ndarray  # float64 [I]


def input_table(spec: GameSpec) -> InputTable:
    """Return the table of a game's encoding: its reading, or each bit as an input where a network reads the bits."""
    channels, height, width = spec.planes
    cells, reading = height * width, spec.reading
    if reading is None:
        bits = channels * cells
        every = np.arange(bits + 1, dtype=np.int32)
        return InputTable(every, every[:-1].copy(), np.ones(bits), np.zeros(bits))
    starts, pairs = [0], []
    for bit in range(channels * cells):
        plane, cell = divmod(bit, cells)
        pairs += [(k * cells + cell, row[plane]) for k, row in enumerate(reading.cells) if row[plane]]
        if cell == 0:
            first = len(reading.cells) * cells
            pairs += [(first + m, row[plane]) for m, row in enumerate(reading.position) if row[plane]]
        starts.append(len(pairs))
    constant = np.zeros(num_inputs(spec.planes, reading))
    constant[len(constant) - len(reading.position) :] = reading.offsets
    return InputTable(
        np.array(starts, np.int32), np.array([i for i, _ in pairs], np.int32), np.array([w for _, w in pairs]), constant
    )


def folded(table: InputTable, weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the layer that reads bits and equals one that reads the inputs: float64 [B, H] and [H].

    A layer is linear, so the sum of the input's weights over its bits is a weight of the bits. `weights`: [I, H], `bias`: [H].
    """
    bits = len(table.starts) - 1
    rows = np.zeros((bits, weights.shape[1]))
    of_bit = np.repeat(np.arange(bits), np.diff(table.starts))
    np.add.at(rows, of_bit, table.weights[:, None] * weights[table.inputs])
    return rows, bias + table.constant @ weights


def bits_read(table: InputTable) -> np.ndarray:
    """Return the mask of the bits that contribute to an input, uint8 [packed_bytes]: the rest need not be looked at."""
    return np.packbits(np.diff(table.starts) > 0, bitorder="little")


@compiled
def read_inputs_of(table: InputTable, packed: np.ndarray, x: np.ndarray, active: np.ndarray) -> int:
    """Write the inputs of a position (uint8 [packed_bytes]) into `x` (float64 [I]).

    The numbers of the inputs that are not 0 are written into `active` (int32 [I]), ascending; returns their count.
    """
    for i in range(x.shape[0]):
        x[i] = table.constant[i]
    bits = table.starts.shape[0] - 1
    for byte in range(packed.shape[0]):
        rest = int(packed[byte])
        bit = byte << 3
        while rest:
            if rest & 1 and bit < bits:
                for pair in range(table.starts[bit], table.starts[bit + 1]):
                    x[table.inputs[pair]] += table.weights[pair]
            rest >>= 1
            bit += 1
    count = 0
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            active[count] = i
            count += 1
    return count
