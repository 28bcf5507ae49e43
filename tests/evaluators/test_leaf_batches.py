"""Batches of leaves: arrays that no evaluator could read as they are do not make one."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import LeafBatch

STATES, LEGAL = np.zeros((2, 3), np.uint8), np.zeros((2, 4), np.int16)


@pytest.mark.parametrize(
    ("states", "legal"),
    [
        (np.full((2, 3), 0.5), LEGAL),
        (np.full((2, 3), 256), LEGAL),
        (np.full((2, 3), None), LEGAL),
        (STATES.astype(bool), LEGAL),
        (STATES, np.full((2, 4), 70_000)),
        (STATES, LEGAL.astype(np.float32)),
    ],
)
def test_arrays_of_other_types_are_refused_as_a_conversion_would_make_other_positions_of_them(
    states: np.ndarray, legal: np.ndarray
) -> None:
    with pytest.raises(InvalidRequest, match=rf"states {states.dtype} \[2, 3\] and legal actions {legal.dtype} \[2, 4\]; want"):
        LeafBatch(states, legal)


@pytest.mark.parametrize(
    ("states", "legal"),
    [(STATES.reshape(2, 1, 1, 3), LEGAL), (STATES[0], LEGAL), (STATES, LEGAL[0]), (STATES, LEGAL[:1]), (STATES[:0], LEGAL)],
)
def test_arrays_without_a_row_for_each_position_are_refused(states: np.ndarray, legal: np.ndarray) -> None:
    with pytest.raises(InvalidRequest, match=r"want uint8 \[positions, bytes\] and int16 \[positions, actions\]"):
        LeafBatch(states, legal)


def test_views_of_any_order_and_no_positions_are_batches() -> None:
    assert len(LeafBatch(STATES[::-1, ::2], np.asfortranarray(LEGAL))) == 2
    assert len(LeafBatch(STATES[:0], LEGAL[:0])) == 0
