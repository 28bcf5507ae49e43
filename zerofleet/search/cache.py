"""Evaluation cache of a block: positions evaluated before, or in flight for another game, need no new row."""

from __future__ import annotations

from typing import Any

import numpy as np

from games.compiled import lean
from zerofleet.search.arena import Cache
from zerofleet.search.tree import copy

__all__ = ["EMPTY", "FILLED", "fill", "find"]

EMPTY, FILLED = -2, -1


@lean
def find(cache: Cache, key: Any, version: int) -> tuple[int, bool]:
    """Return the entry of a position, and whether it holds or waits for that evaluation."""
    entry = int(key & np.uint64(cache.keys.shape[0] - 1))
    return entry, cache.row[entry] != EMPTY and cache.keys[entry] == key and cache.versions[entry] == version


@lean
def fill(cache: Cache, entry: int, policy: np.ndarray, value: np.ndarray) -> None:
    """Store an evaluation: policy float32 [L], value float32 [P] (player to move first)."""
    copy(policy, cache.policy[entry])
    copy(value, cache.value[entry])
    cache.row[entry] = FILLED
