"""Sets of up to 128 cards, two words each, within the state of Take 6!.

A set occupies `state[at]` and `state[at + 1]`; card n is bit n % 64 of word n // 64. So a set has no order that could
reveal its history.
"""

from __future__ import annotations

import numpy as np

from games.compiled import compiled
from games.core import State
from games.kit.bits import count_bits, lowest_bit

__all__ = ["as_int", "clear", "has", "next_card", "put", "remove", "size"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def clear(state: State, at: int) -> None:
    """Empty the set."""
    state[at] = _ZERO
    state[at + 1] = _ZERO


@compiled
def has(state: State, at: int, card: int) -> bool:
    """Return whether the card is in the set."""
    return (state[at + (card >> 6)] >> np.uint64(card & 63)) & _ONE != _ZERO  # type: ignore[no-any-return]


@compiled
def put(state: State, at: int, card: int) -> None:
    """Add a card."""
    state[at + (card >> 6)] |= _ONE << np.uint64(card & 63)


@compiled
def remove(state: State, at: int, card: int) -> None:
    """Remove a card, if present."""
    state[at + (card >> 6)] &= ~(_ONE << np.uint64(card & 63))


@compiled
def size(state: State, at: int) -> int:
    """Return the number of cards in the set."""
    return count_bits(state[at]) + count_bits(state[at + 1])


@compiled
def next_card(state: State, at: int, card: int) -> int:
    """Return the lowest card of the set that is `card` or higher, or -1."""
    for i in range(card >> 6, 2):
        word = state[at + i]
        if i == card >> 6:
            word &= _ALL << np.uint64(card & 63)
        if word != _ZERO:
            return 64 * i + lowest_bit(word)
    return -1


@compiled
def as_int(word: np.uint64) -> int:
    """Return a word as a signed integer: mixed signedness gives floats in compiled code, and `int` keeps the type unsigned."""
    return np.int64(word)  # type: ignore[return-value]
