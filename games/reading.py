"""Numbers that a network reads in place of the bits of a position's planes.

A position travels as bits. An encoding with other numbers, such as -1 for a stone of the other player, or with one number for
the whole position, is a weighted sum of bits, which a network computes as its first step: a `Reading` of a `GameSpec`.

Axes: C planes, H x W cells, K numbers per cell, M numbers per position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Reading", "counted_reading", "num_inputs", "read_inputs"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Weights of the planes in the inputs of a network."""

    cells: tuple[tuple[float, ...], ...]
    """K rows of C weights: number k of a cell is the sum of its bits in all planes, weighted by row k."""
    position: tuple[tuple[float, ...], ...] = ()
    """M rows of C weights of the planes' first bits, for planes that are all ones or all zeros."""
    offsets: tuple[float, ...] = ()
    """M numbers added to those of the position."""


def counted_reading(weights: tuple[float, ...], counters: int) -> Reading:
    """Return the reading of one number per cell, from the first planes, and of `counters` further planes as bits."""
    planes = len(weights) + counters
    bits = tuple(tuple(float(i == len(weights) + k) for i in range(planes)) for k in range(counters))
    return Reading(cells=((*weights, *(0.0 for _ in range(counters))),), position=bits, offsets=tuple(0.0 for _ in bits))


def num_inputs(planes: tuple[int, int, int], reading: Reading | None) -> int:
    """Return the number of inputs of a network without a board: K * H * W + M, or C * H * W without a reading."""
    channels, height, width = planes
    if reading is None:
        return channels * height * width
    return len(reading.cells) * height * width + len(reading.position)


def read_inputs(bits: np.ndarray, reading: Reading | None) -> np.ndarray:
    """Return the inputs of a network without a board, float32 [..., num_inputs], from planes uint8 [..., C, H, W].

    The numbers of the cells come first, number 0 of every cell, then number 1; those of the position are last.
    """
    lead = bits.shape[:-3]
    if reading is None:
        return bits.reshape(*lead, -1).astype(np.float32)
    weights = np.array(reading.cells, np.float32)
    cells: np.ndarray = np.einsum("kc,...chw->...khw", weights, bits.astype(np.float32)).reshape(*lead, -1)
    if not reading.position:
        return cells
    first = bits[..., 0, 0].astype(np.float32)
    position = first @ np.array(reading.position, np.float32).T + np.array(reading.offsets, np.float32)
    return np.concatenate([cells, position], axis=-1)
