"""Searches of a record in the encoding of protobuf, written by compiled code.

A message for each move costs ten times the time. `SearchedMove` in records.proto is the definition; numbers of its fields are
repeated here, and tests compare the bytes with those of the library.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from games.compiled import lean
from zerofleet.contracts.played import Searches

__all__ = ["searched_bytes", "warm_up"]

# Types of the wire, in the last three bits of a tag.
_VARINT, _LENGTH, _FIXED32 = 0, 2, 5
_SEARCHED = 10 << 3 | _LENGTH  # field of GameRecord
_PLY, _VERSION, _ACTIONS, _VISITS, _TARGET = 1 << 3, 2 << 3, 3 << 3 | _LENGTH, 4 << 3 | _LENGTH, 5 << 3 | _LENGTH
_ROOT_VALUE, _FLAGS, _BEHAVIOUR = 6 << 3 | _LENGTH, 7 << 3, 8 << 3 | _FIXED32
_POOL, _POOL_SCORES = 9 << 3 | _LENGTH, 10 << 3 | _LENGTH
_NEGATIVE = 1 << 40


def searched_bytes(searches: Searches) -> bytes:
    """Return the field `searched` of a `GameRecord`, to be appended to the encoding of its other fields.

    Raises `ValueError` for a negative number, which the fields cannot hold.
    """
    rows = searches.ply, searches.model_version, searches.flags, searches.root_value, searches.behaviour
    listed = searches.start, searches.actions, searches.visits
    targets = searches.target_start, searches.target.astype(np.int32)  # the type of other numbers: less to compile
    pools = (searches.pool_start, searches.pool, searches.pool_scores)
    sizes = np.zeros(len(searches), dtype=np.int64)
    size = _measure(rows, listed, targets, pools[:2], sizes)
    if size >= _NEGATIVE:
        raise ValueError("a ply, version, action or visit of the searched moves is negative; want numbers from 0")
    out = np.empty(size, dtype=np.uint8)
    _write(rows, listed, targets, pools, sizes, out)
    return out.tobytes()


def warm_up() -> None:
    """Load the compiled code, or compile it."""
    searched_bytes(Searches.of(()))


_Rows: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_Listed: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
_Ragged: TypeAlias = tuple[np.ndarray, np.ndarray]


@lean
def _measure(rows: _Rows, listed: _Listed, targets: _Ragged, pools: _Ragged, sizes: np.ndarray) -> int:
    """Write the bytes of each message into `sizes` (int64 [M]); return the field's, _NEGATIVE or more for a number below 0."""
    ply, version, flags, root_value, behaviour = rows
    start, actions, visits = listed
    target_start, target = targets
    pool_start, pool = pools
    total = 0
    for row in range(ply.size):
        first, end = start[row], start[row + 1]
        size = _optional_size(int(ply[row])) + _optional_size(int(version[row])) + _optional_size(int(flags[row]))
        size += _packed_size(actions[first:end]) + _packed_size(visits[first:end])
        size += _packed_size(target[target_start[row] : target_start[row + 1]])
        size += _packed_size(pool[pool_start[row] : pool_start[row + 1]])
        size += _floats_size(root_value.shape[1]) if version[row] else 0
        size += _floats_size(pool_start[row + 1] - pool_start[row])
        size += 5 if behaviour[row] else 0
        sizes[row] = size
        total += 1 + _size(size) + size
    return total


@lean
def _write(rows: _Rows, listed: _Listed, targets: _Ragged, pools: _Listed, sizes: np.ndarray, out: np.ndarray) -> None:
    """Write the messages (with their `sizes`, int64 [M]) into `out`, uint8 [n]."""
    ply, version, flags, root_value, behaviour = rows
    start, actions, visits = listed
    target_start, target = targets
    pool_start, pool, pool_scores = pools
    at = 0
    for row in range(ply.size):
        first, end = start[row], start[row + 1]
        pooled, pooled_end = pool_start[row], pool_start[row + 1]
        at = _put(out, _put(out, at, _SEARCHED), sizes[row])
        at = _put_optional(out, at, _PLY, int(ply[row]))
        at = _put_optional(out, at, _VERSION, int(version[row]))
        at = _put_packed(out, at, _ACTIONS, actions[first:end])
        at = _put_packed(out, at, _VISITS, visits[first:end])
        at = _put_packed(out, at, _TARGET, target[target_start[row] : target_start[row + 1]])
        if version[row]:
            at = _put_floats(out, at, _ROOT_VALUE, root_value[row])
        at = _put_optional(out, at, _FLAGS, int(flags[row]))
        if behaviour[row]:
            out[at] = _BEHAVIOUR
            at = _put_words(out, at + 1, behaviour[row : row + 1])
        at = _put_packed(out, at, _POOL, pool[pooled:pooled_end])
        at = _put_floats(out, at, _POOL_SCORES, pool_scores[pooled:pooled_end])


@lean
def _size(number: int) -> int:
    """Return the bytes of a number from 0 up, seven bits each; a negative one has _NEGATIVE."""
    size = 1 if number >= 0 else _NEGATIVE
    while number > 0x7F:
        number >>= 7
        size += 1
    return size


@lean
def _optional_size(number: int) -> int:
    """Return the bytes of a field with a number; one of 0 is left out."""
    return 1 + _size(number) if number else 0


@lean
def _packed_size(numbers: np.ndarray) -> int:
    """Return the bytes of a field with numbers; one without any is left out."""
    if not numbers.size:
        return 0
    size = _sum_of_sizes(numbers)
    return 1 + _size(size) + size


@lean
def _sum_of_sizes(numbers: np.ndarray) -> int:
    size = 0
    for number in numbers:
        size += _size(int(number))
    return size


@lean
def _floats_size(count: int) -> int:
    """Return the bytes of a field with `count` floats; one without any is left out."""
    return 1 + _size(4 * count) + 4 * count if count else 0


@lean
def _put(out: np.ndarray, at: int, number: int) -> int:
    """Write a number from 0 up, seven bits a byte, at `out[at]`; return the index after it."""
    while number > 0x7F:
        out[at] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@lean
def _put_optional(out: np.ndarray, at: int, tag: int, number: int) -> int:
    return _put(out, _put(out, at, tag), number) if number else at


@lean
def _put_packed(out: np.ndarray, at: int, tag: int, numbers: np.ndarray) -> int:
    if not numbers.size:
        return at
    at = _put(out, _put(out, at, tag), _sum_of_sizes(numbers))
    for number in numbers:
        at = _put(out, at, int(number))
    return at


@lean
def _put_floats(out: np.ndarray, at: int, tag: int, floats: np.ndarray) -> int:
    return _put_words(out, _put(out, _put(out, at, tag), 4 * floats.size), floats) if floats.size else at


@lean
def _put_words(out: np.ndarray, at: int, floats: np.ndarray) -> int:
    """Write float32 numbers, least significant byte first."""
    for word in floats.view(np.uint32):
        for shift in (0, 8, 16, 24):
            out[at] = (word >> shift) & 0xFF
            at += 1
    return at
