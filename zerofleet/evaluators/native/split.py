"""Weights of a convolution split into two numbers of bfloat16 each, in the tiles that AMX multiplies (split.h)."""

from __future__ import annotations

import numpy as np

__all__ = ["split"]

_SIDE = 16  # rows of a tile, and its columns of float32
_GROUP = 32


def split(weights: np.ndarray) -> np.ndarray:
    """Return weights [points, K, N], K and N multiples of 32, as uint16 in the order of `multiply` in split.h, flat.

    The high half is the nearest number of bfloat16, the low one the nearest to what is missing.
    """
    points, inputs, outputs = weights.shape
    with np.errstate(invalid="ignore"):  # an infinite weight less its high half is NaN, and so are the answers
        high = _rounded(weights)
        halves = np.stack([high, _rounded(weights - high)])
    bits = (np.ascontiguousarray(halves, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    tiles = bits.reshape(2, points, inputs // _GROUP, _SIDE, 2, outputs // _GROUP, 2, _SIDE)
    return np.ascontiguousarray(tiles.transpose(1, 5, 2, 0, 6, 3, 7, 4)).ravel()


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Return the nearest numbers of bfloat16, as float32; ties to even. NaN stays NaN."""
    single = numbers.astype(np.float32)
    bits = single.view(np.uint32)
    nearest = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(single), nearest, single)
