"""Bit-packed planes: how compiled rules write them and how numpy reads them back."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled

__all__ = ["set_bit", "unpack"]


@compiled
def set_bit(out: np.ndarray, bit: int) -> None:
    """Set one bit of a packed encoding `out` (uint8 [packed_bytes])."""
    out[bit >> 3] |= np.uint8(1 << (bit & 7))


def unpack(packed: np.ndarray, planes: tuple[int, int, int]) -> np.ndarray:
    """Return uint8 planes [..., C, H, W] of packed encodings uint8 [..., packed_bytes]."""
    channels, height, width = planes
    bits = np.unpackbits(packed, axis=-1, count=channels * height * width, bitorder="little")
    return bits.reshape(*packed.shape[:-1], channels, height, width)
