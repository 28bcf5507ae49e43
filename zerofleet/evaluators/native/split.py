"""Weights of a convolution split into two numbers of bfloat16 each, in the tiles that AMX multiplies (split.h)."""

from __future__ import annotations

import numpy as np

__all__ = ["split"]

_SIDE = 16  # rows of a tile, and its columns of float32
_GROUP = 32


def split(weights: np.ndarray) -> np.ndarray:
    """Return weights [points, K, N], K and N multiples of 16, as uint16 in the order of `multiply` in split.h, flat.

    The high half is the nearest number of bfloat16, the low one the nearest to what is missing.
    """
    points, inputs, outputs = weights.shape
    with np.errstate(invalid="ignore"):  # an infinite weight less its high half is NaN, and so are the answers
        high = _rounded(weights)
        halves = np.stack([high, _rounded(weights - high)])
    bits = (np.ascontiguousarray(halves, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if inputs % _GROUP:  # the last 16: high halves twice, low halves and zeros
        rest_high, rest_low = bits[:, :, -_SIDE:]
        bits = np.concatenate([bits, np.stack([rest_high, np.zeros_like(rest_low)])], axis=2)
    parts = [_tiles(bits[..., at : at + _GROUP]) for at in range(0, outputs, _GROUP)]
    return np.concatenate([part.reshape(points, -1) for part in parts], axis=1).ravel()


def _tiles(bits: np.ndarray) -> np.ndarray:
    """Return halves [2, points, K, 16 or 32] as tiles [points, K / 32, 2, N / 16, 16 pairs, 16 columns, 2]."""
    _, points, inputs, outputs = bits.shape
    return bits.reshape(2, points, inputs // _GROUP, _SIDE, 2, outputs // _SIDE, _SIDE).transpose(1, 2, 0, 5, 3, 6, 4)


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Return the nearest numbers of bfloat16, as float32; ties to even. NaN stays NaN."""
    single = numbers.astype(np.float32)
    bits = single.view(np.uint32)
    nearest = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(single), nearest, single)
