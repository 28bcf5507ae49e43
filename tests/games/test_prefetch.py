"""Prefetching changes nothing that a program can see, whatever it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from games.compiled import lean
from games.prefetch import prefetch

RECORD = np.dtype([("visits", np.int32), ("value", np.float32, (3,)), ("kind", np.uint8)], align=True)


@lean
def _sum_ahead(records: np.ndarray, steps: int) -> int:
    total = 0
    for i in range(records.shape[0]):
        prefetch(records, i + steps)
        total += records[i].visits
    return total


@pytest.mark.parametrize("steps", [0, 1, -1, 1 << 40, -(1 << 40)])
def test_any_entry_may_be_asked_for_within_a_vector_and_outside(steps):
    records = np.zeros((2, 1000), dtype=RECORD)
    records["visits"][1] = np.arange(1000)
    before = records.copy()
    assert _sum_ahead(records[1], steps) == 499_500
    assert np.array_equal(records, before)
