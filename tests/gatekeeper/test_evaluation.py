"""Evaluations of the gatekeeper, counted by what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from gatekeeper.evaluation import WatchedEvaluator
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.telemetry import metrics

LEGAL = np.tile(np.array([0, 4, -1], np.int16), (5, 1))


@pytest.mark.parametrize(("purpose", "other"), [("match", "ladder"), ("ladder", "match")])
async def test_evaluations_are_counted_in_all_and_for_their_purpose(purpose, other):
    evaluator = WatchedEvaluator(UniformEvaluator(num_players=2), purpose)
    before = [_count(metrics.EVALUATIONS, source="network"), *(_spent(each) for each in (purpose, other))]
    await evaluator.evaluate(LeafBatch(np.zeros((5, 3), np.uint8), LEGAL), version=ModelVersion(1))
    after = [_count(metrics.EVALUATIONS, source="network"), *(_spent(each) for each in (purpose, other))]
    assert [new - old for new, old in zip(after, before, strict=True)] == [5, 5, 0]


def _spent(purpose):
    return _count(metrics.GATE_EVALUATIONS, purpose=purpose)


def _count(counter, **labels):
    return counter.labels(**labels)._value.get()
