"""Bit-packed planes: how compiled rules write them and how numpy reads them back."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled

__all__ = ["set_bit", "set_range", "unpack"]


@compiled
def set_bit(out: np.ndarray, bit: int) -> None:
    """Set one bit of a packed encoding `out` (uint8 [packed_bytes])."""
    out[bit >> 3] |= np.uint8(1 << (bit & 7))


@compiled
def set_range(out: np.ndarray, start: int, stop: int) -> None:
    """Set the bits start .. stop - 1 (at least one) of a packed encoding `out` (uint8 [packed_bytes])."""
    first = start >> 3
    last = (stop - 1) >> 3
    head = (0xFF << (start & 7)) & 0xFF
    tail = 0xFF >> (7 - ((stop - 1) & 7))
    if first == last:
        out[first] |= np.uint8(head & tail)
        return
    out[first] |= np.uint8(head)
    out[first + 1 : last] = 0xFF
    out[last] |= np.uint8(tail)


def unpack(packed: np.ndarray, planes: tuple[int, int, int]) -> np.ndarray:
    """Return uint8 planes [..., C, H, W] of packed encodings uint8 [..., packed_bytes]."""
    channels, height, width = planes
    bits = np.unpackbits(packed, axis=-1, count=channels * height * width, bitorder="little")
    return bits.reshape(*packed.shape[:-1], channels, height, width)
