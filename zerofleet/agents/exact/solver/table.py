"""Transposition table of the solver: bounds of scores by position, one word each.

A position's code is multiplied by an odd constant, a bijection modulo 2^64. The product's high bits select the place and
its low bits are stored there, so the whole product is verified and distinct positions never collide:

    word    63 ............... 21   20 ...... 15   14 ..... 8   7 ...... 0
            low bits of product     work           least + 64   most + 64         0: empty

A place holds two words: the first keeps the result of the most work, the second the most recent (Breuker 1998, TwoBig).
A table of 2^n words thus has 2^(n-1) places, and n - 1 high bits of the product select one; 43 low bits are stored. Both
together are all 64 bits for every n of 22 or more, whatever the code.

Threads may share a table: words are read and written atomically.
"""

from __future__ import annotations

import numpy as np

from games.compiled import lean
from games.kit.bits import count_bits
from games.prefetch import prefetch

__all__ = ["MIN_BITS", "UNKNOWN", "empty_table", "fetch", "look_up", "note", "scrambled"]

MIN_BITS = 22
"""Binary logarithm of the minimal size, 32 MB: the place is 21 bits of the product, and the other 43 fit into a word with
work and bounds."""

UNKNOWN = np.uint64(0)
"""Result of a lookup for a position that is not stored."""

_SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, made odd (Knuth 6.4)
_ONE, _KEPT = np.uint64(1), np.uint64(21)
_WORK, _WORK_MASK = np.uint64(15), np.uint64(63)


def empty_table(bits: int = MIN_BITS) -> np.ndarray:
    """Return a table of 2^bits words, uint64; raises `ValueError` below `MIN_BITS`."""
    if bits < MIN_BITS:
        raise ValueError(f"a table of 2^{bits} words cannot distinguish all positions; want 2^{MIN_BITS} or more")
    return np.zeros(1 << bits, dtype=np.uint64)


@lean
def fetch(table: np.ndarray, product: np.uint64, shift: np.uint64) -> None:
    """Prefetch the place of a position, usually a cache miss, before its lookup."""
    prefetch(table, int((product >> shift) & ~_ONE))


@lean
def scrambled(code: np.uint64) -> np.uint64:
    """Return the table product of a code."""
    return code * _SCRAMBLE


@lean
def look_up(table: np.ndarray, product: np.uint64, shift: np.uint64) -> np.uint64:
    """Return the word of a position, or `UNKNOWN`; `shift` is 64 minus the logarithm of the table's size."""
    place = (product >> shift) & ~_ONE
    kept = product << _KEPT
    word: np.uint64 = table[place]
    if (word ^ kept) >> _KEPT == 0 and word != 0:
        return word
    word = table[place | _ONE]
    if (word ^ kept) >> _KEPT == 0:
        return word
    return UNKNOWN


@lean
def note(table: np.ndarray, product: np.uint64, shift: np.uint64, bounds: np.uint64, work: np.uint64) -> None:
    """Store the bounds (15 bits) of a position that took `work` nodes."""
    place = (product >> shift) & ~_ONE
    effort = _logarithm(work)
    word = (product << _KEPT) | (effort << _WORK) | bounds
    first = table[place]
    if first == 0 or (first ^ word) >> _KEPT == 0 or (first >> _WORK) & _WORK_MASK <= effort:
        table[place] = word
    else:
        table[place | _ONE] = word


@lean
def _logarithm(number: np.uint64) -> np.uint64:
    """Return the bit length of a number."""
    for step in (1, 2, 4, 8, 16, 32):
        number |= number >> np.uint64(step)
    return np.uint64(count_bits(number))
