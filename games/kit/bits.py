"""Bit operations: sets of cells in 64-bit words, and bit-packed planes."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled

__all__ = ["count_bits", "lowest_bit", "set_bit", "set_range", "unpack"]

_ONE, _TWO, _FOUR, _TOP_BYTE = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_ODD_BITS, _PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_NIBBLES, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@compiled
def count_bits(word: np.uint64) -> int:
    """Return the number of set bits in a word (Warren, Hacker's Delight, 5-1)."""
    word -= (word >> _ONE) & _ODD_BITS
    word = (word & _PAIRS) + ((word >> _TWO) & _PAIRS)
    word = (word + (word >> _FOUR)) & _NIBBLES
    return int(np.int64((word * _BYTES) >> _TOP_BYTE))  # signed: mixed signed and unsigned sums become floats


@compiled
def lowest_bit(word: np.uint64) -> int:
    """Return the index of the lowest set bit, or 64 if there is none."""
    return count_bits(~word & (word - _ONE))


@compiled
def set_bit(out: np.ndarray, bit: int) -> None:
    """Set one bit of a packed encoding `out` (uint8 [packed_bytes])."""
    out[bit >> 3] |= np.uint8(1 << (bit & 7))


@compiled
def set_range(out: np.ndarray, start: int, stop: int) -> None:
    """Set the bits start .. stop - 1 (at least one bit) of a packed encoding `out` (uint8 [packed_bytes])."""
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
