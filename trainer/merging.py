"""Merging of equal positions in a batch: one row with mean targets instead of several that differ in their targets alone.

A game's first positions recur in every game. Merged, a position is evaluated once, and its weight follows from its number of
rows n and their mean weight w by a rule, as in AlphaZero.jl: `linear` n w, `log` (1 + log2 n) w, `constant` w. A linear weight
leaves the expected gradient unchanged and saves time; the others also moderate frequent positions.

Axes: B rows, G groups of equal rows, L most legal actions, P players.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from trainer.samples import Samples

__all__ = ["MergeRule", "merge_equal"]

MergeRule = Literal["off", "constant", "log", "linear"]

_GROWTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": np.ones_like,
    "log": lambda rows: 1.0 + np.log2(rows),
    "linear": lambda rows: rows,
}


def merge_equal(samples: Samples, rule: MergeRule) -> Samples:
    """Return the samples with those of equal state and legal actions merged, in the order of the first of each.

    Policy, value and known shares of plies left become means by weight; choices and replies of opponents are those of the first
    row.
    """
    if rule == "off":
        return samples
    groups = _groups(samples)
    count = int(groups.max()) + 1
    if count == len(samples):
        return samples
    first = np.unique(groups, return_index=True)[1]
    weight = samples.weight.astype(np.float64)
    total = _sums(weight, groups, count)
    rows = np.bincount(groups, minlength=count).astype(np.float64)
    known = weight * (samples.plies_left >= 0)
    known_total = _sums(known, groups, count)
    plies_left = _sums(known * samples.plies_left, groups, count) / np.where(known_total > 0, known_total, 1.0)
    return Samples(
        states=samples.states[first],
        legal=samples.legal[first],
        policy=(_sums(weight[:, None] * samples.policy, groups, count) / total[:, None]).astype(samples.policy.dtype),
        value=(_sums(weight[:, None] * samples.value, groups, count) / total[:, None]).astype(samples.value.dtype),
        opponents=samples.opponents[first],
        plies_left=np.where(known_total > 0, plies_left, -1.0).astype(samples.plies_left.dtype),
        reply=samples.reply[first],
        weight=(total / rows * _GROWTH[rule](rows)).astype(samples.weight.dtype),
    )


def _groups(samples: Samples) -> np.ndarray:
    """Return int64 [B]: the group of each row; groups are numbered in the order of their first rows."""
    keys = np.concatenate([samples.states, np.ascontiguousarray(samples.legal).view(np.uint8)], axis=1)
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(key.tobytes(), len(numbers)) for key in keys], np.int64)


def _sums(values: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """Return float64 [G, ...]: sums of the rows of each group."""
    sums = np.zeros((count, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums
