"""Searches of a finished game, read from its slot."""

from __future__ import annotations

import numpy as np

from zerofleet.contracts.played import TARGET_UNIT, SearchedMove
from zerofleet.search.arena import History

__all__ = ["searched_moves"]


def searched_moves(history: History, slot: int, plies: int) -> tuple[SearchedMove, ...]:
    """Return the searches of the first `plies` plies of a slot's game."""
    found = []
    for ply in np.flatnonzero(history.versions[slot, :plies]):
        count = history.counts[slot, ply]
        found.append(
            SearchedMove(
                ply=int(ply),
                model_version=int(history.versions[slot, ply]),
                actions=history.actions[slot, ply, :count].astype(np.int32),
                visits=history.visits[slot, ply, :count].copy(),
                target=_fixed_point(history.targets[slot, ply, :count]),
                root_value=history.values[slot, ply].copy(),
                flags=int(history.flags[slot, ply]),
            )
        )
    return tuple(found)


def _fixed_point(weights: np.ndarray) -> np.ndarray:
    """Return weights (float32 [n], sum 1) in units of 1/65535 that sum to 65535 exactly; empty when all are 0."""
    if not weights.any():
        return np.zeros(0, dtype=np.uint16)
    scaled = weights.astype(np.float64) / weights.sum(dtype=np.float64) * TARGET_UNIT
    units = np.floor(scaled).astype(np.int64)
    rest = TARGET_UNIT - int(units.sum())
    units[np.argsort(units - scaled, kind="stable")[:rest]] += 1
    return np.asarray(units, dtype=np.uint16)
