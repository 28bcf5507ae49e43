"""The fakes keep the contract of an evaluator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.testing import FunctionEvaluator, UniformEvaluator, uniform_policy

LEGAL = np.array([[0, 3, -1, -1], [1, -1, -1, -1], [0, 1, 2, 3]], np.int16)
BATCH = LeafBatch(np.zeros((3, 5), np.uint8), LEGAL)


async def test_the_uniform_evaluator_spreads_over_the_listed_actions():
    answer = await UniformEvaluator(3).evaluate(BATCH, version=ModelVersion(7))
    np.testing.assert_array_equal(answer.policy, [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4])
    assert (answer.policy.dtype, answer.value.dtype, answer.value.shape, answer.version) == (np.float16, np.float32, (3, 3), 7)


async def test_the_uniform_evaluator_has_heads_where_it_knows_the_number_of_actions():
    asked = LeafBatch(BATCH.states, BATCH.legal, heads=2)
    answer = await UniformEvaluator(3, num_actions=8).evaluate(asked, version=ModelVersion(7))
    assert [head.tolist() for head in answer.heads] == [[[0.125] * 8] * 3] * 2
    assert (await UniformEvaluator(3, num_actions=8).evaluate(BATCH, version=ModelVersion(7))).heads == ()
    with pytest.raises(InvalidRequest, match="made without num_actions"):
        await UniformEvaluator(3).evaluate(asked, version=ModelVersion(7))


async def test_a_function_evaluates_and_sees_the_version():
    def answer(batch, version):
        return uniform_policy(batch.legal), np.full((len(batch), 2), version / 10)

    evaluation = await FunctionEvaluator(answer).evaluate(BATCH, version=ModelVersion(4))
    np.testing.assert_allclose(evaluation.value, 0.4)
    assert evaluation.value.dtype == np.float32


async def test_a_function_that_answers_other_shapes_is_refused():
    evaluator = FunctionEvaluator(lambda batch, version: (np.zeros((1, 4)), np.zeros((1, 2))))
    with pytest.raises(InvalidRequest, match=r"policy \(1, 4\) and value \(1, 2\); wanted \(3, 4\)"):
        await evaluator.evaluate(BATCH, version=ModelVersion(1))


async def test_a_function_may_offer_extra_heads_and_answers_as_many_as_are_asked_for():
    def answer(batch, version):
        return uniform_policy(batch.legal), np.zeros((len(batch), 2)), np.full((len(batch), 5), 0.2), np.ones((len(batch), 1))

    evaluator = FunctionEvaluator(answer)
    for heads in (0, 1, 2):
        evaluation = await evaluator.evaluate(replace(BATCH, heads=heads), version=ModelVersion(4))
        assert [head.shape for head in evaluation.heads] == [(len(BATCH), 5), (len(BATCH), 1)][:heads]
    with pytest.raises(InvalidRequest, match="wanted 3 of"):
        await evaluator.evaluate(replace(BATCH, heads=3), version=ModelVersion(4))
