"""Searches of a finished game, read from its slot."""

from __future__ import annotations

import numpy as np

from games.compiled import lean
from zerofleet.contracts.played import TARGET_UNIT, SearchedMove
from zerofleet.search.arena import History

__all__ = ["fixed_points", "searched_moves"]

_NO_TARGET = np.zeros(0, dtype=np.uint16)


def searched_moves(history: History, slot: int, plies: int) -> tuple[SearchedMove, ...]:
    """Return the searches of the first `plies` plies of a slot's game."""
    searched = np.flatnonzero(history.versions[slot, :plies])
    if not len(searched):
        return ()
    counts = history.counts[slot, searched]
    width = int(counts.max())
    actions = history.actions[slot, searched, :width].astype(np.int32)
    visits = history.visits[slot, searched, :width]
    weights = np.where(np.arange(width) < counts[:, None], history.targets[slot, searched, :width], 0.0)
    targets = fixed_points(weights)
    has_target = np.count_nonzero(weights, axis=1)
    values = history.values[slot, searched]
    versions, flags = history.versions[slot, searched].tolist(), history.flags[slot, searched].tolist()
    return tuple(
        SearchedMove(
            ply=ply,
            model_version=versions[row],
            actions=actions[row, :count],
            visits=visits[row, :count],
            target=targets[row, :count] if has_target[row] else _NO_TARGET,
            root_value=values[row],
            flags=flags[row],
        )
        for row, (ply, count) in enumerate(zip(searched.tolist(), counts.tolist(), strict=True))
    )


def fixed_points(weights: np.ndarray) -> np.ndarray:
    """Return each row of weights (float [n, m], from 0 up) in units of 1/65535 of its sum, uint16 [n, m].

    A row with a positive sum becomes 65535 exactly: the largest remainders are rounded up, the first of equal ones first.
    """
    units = np.zeros(weights.shape, dtype=np.uint16)
    _write_fixed_points(np.asarray(weights, dtype=np.float64), weights.sum(axis=1, dtype=np.float64), units)
    return units


@lean
def _write_fixed_points(weights: np.ndarray, totals: np.ndarray, units: np.ndarray) -> None:
    """Write `fixed_points` of weights (float64 [n, m], overwritten) with their sums (float64 [n]) into `units`."""
    for row in range(weights.shape[0]):
        if totals[row] <= 0.0:
            continue
        rest = TARGET_UNIT
        for i in range(weights.shape[1]):
            scaled = weights[row, i] / totals[row] * TARGET_UNIT
            whole = np.floor(scaled)
            units[row, i] = np.uint16(whole)
            rest -= int(whole)
            weights[row, i] = scaled - whole
        for _ in range(rest):
            largest = 0
            for i in range(1, weights.shape[1]):
                if weights[row, i] > weights[row, largest]:
                    largest = i
            units[row, largest] += np.uint16(1)
            weights[row, largest] = -1.0
