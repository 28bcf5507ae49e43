"""Searches of a finished game, read from its slot."""

from __future__ import annotations

import numpy as np

from games.compiled import compiled, lean
from zerofleet.contracts.played import TARGET_UNIT, Searches
from zerofleet.search.arena import History

__all__ = ["fixed_points", "searched_moves"]


def searched_moves(history: History, slot: int, plies: int) -> Searches:
    """Return the searches of the first `plies` plies of a slot's game."""
    rows, ragged, listed = _read(history, slot, plies)
    ply, version, flags, root_value = rows
    start, target_start = ragged
    actions, visits, target = listed
    return Searches(
        ply=ply,
        model_version=version,
        flags=flags,
        root_value=root_value,
        behaviour=np.zeros(len(ply), dtype=np.float32),
        start=start,
        actions=actions,
        visits=visits,
        target_start=target_start,
        target=target,
        pool_start=np.zeros(len(ply) + 1, dtype=np.int64),
        pool=np.empty(0, dtype=np.int32),
        pool_scores=np.empty(0, dtype=np.float32),
    )


@compiled
def _read(
    history: History, slot: int, plies: int
) -> tuple[
    tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    tuple[np.ndarray, np.ndarray],
    tuple[np.ndarray, np.ndarray, np.ndarray],
]:
    """Return columns of `Searches`: (ply, version, flags, root value), (start, target_start), (actions, visits, target)."""
    versions, counts = history.versions[slot], history.counts[slot]
    searches, entries, widest = 0, 0, 0
    for ply in range(plies):
        if versions[ply]:
            searches += 1
            entries += counts[ply]
            widest = max(widest, counts[ply])
    rows = np.empty(searches, np.int32)
    start, target_start = np.zeros(searches + 1, np.int64), np.zeros(searches + 1, np.int64)
    actions, visits = np.empty(entries, np.int32), np.empty(entries, np.int32)
    target, remainders = np.empty(entries, np.uint16), np.empty(widest, np.float64)
    row, written = 0, 0
    for ply in range(plies):
        if not versions[ply]:
            continue
        count, first = counts[ply], start[row]
        rows[row] = ply
        for i in range(count):
            actions[first + i] = history.actions[slot, ply, i]
            visits[first + i] = history.visits[slot, ply, i]
        if _write_fixed_points(history.targets[slot, ply, :count], remainders, target[written : written + count]):
            written += count
        row += 1
        start[row] = first + count
        target_start[row] = written
    return (
        (rows, versions[rows], history.flags[slot][rows], history.values[slot][rows]),
        (start, target_start),
        (actions, visits, target[:written].copy()),
    )


def fixed_points(weights: np.ndarray) -> np.ndarray:
    """Return weights (float [n], from 0 up, with a positive sum) in units of 1/65535 of their sum, uint16 [n].

    They sum to 65535 exactly: the largest remainders are rounded up, the first of equal ones first.
    """
    units = np.empty(len(weights), dtype=np.uint16)
    if not _write_fixed_points(weights, np.empty(len(weights)), units):
        raise ValueError(f"weights {weights.tolist()} have no positive sum")
    return units


@lean
def _write_fixed_points(weights: np.ndarray, remainders: np.ndarray, units: np.ndarray) -> bool:
    """Write `fixed_points` of weights (float [n]) into `units`; return False, with nothing written, if they sum to 0.

    `remainders`: float64 [n] or longer, a workspace.
    """
    total = 0.0
    for weight in weights:
        total += weight
    if total <= 0.0:
        return False
    rest = TARGET_UNIT
    for i in range(weights.size):
        scaled = weights[i] / total * TARGET_UNIT
        whole = np.floor(scaled)
        units[i] = np.uint16(whole)
        rest -= int(whole)
        remainders[i] = scaled - whole
    for _ in range(rest):
        largest = 0
        for i in range(1, weights.size):
            if remainders[i] > remainders[largest]:
                largest = i
        units[largest] += np.uint16(1)
        remainders[largest] = -1.0
    return True
