"""Evaluators without a network keep the contract of an evaluator; the contract suite finds those that do not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

import games
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator, uniform_policy
from zerofleet.testing import EvaluatorContract, FunctionEvaluator

LEGAL = np.array([[0, 3, -1, -1], [1, -1, -1, -1], [0, 1, 2, 3]], np.int16)
BATCH = LeafBatch(np.zeros((3, 5), np.uint8), LEGAL)
V1, V2 = ModelVersion(1), ModelVersion(2)


async def test_the_uniform_evaluator_spreads_over_the_listed_actions():
    answer = await UniformEvaluator(3).evaluate(BATCH, version=ModelVersion(7))
    np.testing.assert_array_equal(answer.policy, [[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4])
    assert (answer.policy.dtype, answer.value.dtype, answer.value.shape, answer.version) == (np.float16, np.float32, (3, 3), 7)


def test_a_uniform_policy_has_the_nearest_share_for_any_number_of_actions():
    places = np.arange(400)
    policy = uniform_policy(np.where(places < places[:, None], places, -1).astype(np.int16))
    np.testing.assert_array_equal(policy[0], 0)
    for count in places[1:]:
        np.testing.assert_array_equal(policy[count], np.where(places < count, np.float16(1 / count), 0))


async def test_the_uniform_evaluator_has_heads_where_it_knows_the_number_of_actions():
    asked = LeafBatch(BATCH.states, BATCH.legal, extra_heads=2)
    answer = await UniformEvaluator(3, num_actions=8).evaluate(asked, version=ModelVersion(7))
    assert [head.tolist() for head in answer.extra_heads] == [[[0.125] * 8] * 3] * 2
    assert (await UniformEvaluator(3, num_actions=8).evaluate(BATCH, version=ModelVersion(7))).extra_heads == ()
    with pytest.raises(InvalidRequest, match="created without num_actions"):
        await UniformEvaluator(3).evaluate(asked, version=ModelVersion(7))


async def test_a_function_evaluates_and_sees_the_version():
    def answer(batch, version):
        return uniform_policy(batch.legal), np.full((len(batch), 2), version / 10)

    evaluation = await FunctionEvaluator(answer).evaluate(BATCH, version=ModelVersion(4))
    np.testing.assert_allclose(evaluation.value, 0.4)
    assert evaluation.value.dtype == np.float32


async def test_a_function_that_answers_other_shapes_is_refused():
    evaluator = FunctionEvaluator(lambda batch, version: (np.zeros((1, 4)), np.zeros((1, 2))))
    with pytest.raises(InvalidRequest, match=r"policy \(1, 4\) and value \(1, 2\); want \(3, 4\)"):
        await evaluator.evaluate(BATCH, version=ModelVersion(1))


async def test_a_function_may_offer_extra_heads_and_answers_as_many_as_are_asked_for():
    def answer(batch, version):
        return uniform_policy(batch.legal), np.zeros((len(batch), 2)), np.full((len(batch), 5), 0.2), np.ones((len(batch), 1))

    evaluator = FunctionEvaluator(answer)
    for extra_heads in (0, 1, 2):
        evaluation = await evaluator.evaluate(replace(BATCH, extra_heads=extra_heads), version=ModelVersion(4))
        assert [head.shape for head in evaluation.extra_heads] == [(len(BATCH), 5), (len(BATCH), 1)][:extra_heads]
    with pytest.raises(InvalidRequest, match="want 3 of"):
        await evaluator.evaluate(replace(BATCH, extra_heads=3), version=ModelVersion(4))


def sound(batch, version):
    """Policy, value and one extra head of positions, each a function of its own row."""
    if version != V1:
        raise ModelNotFound(f"version {version} is not there")
    first = (batch.states[:, :1] / 255).astype(np.float32)
    return uniform_policy(batch.legal), np.concatenate([first, -first], axis=1), first


class TestUniformEvaluator(EvaluatorContract):
    @pytest.fixture
    def evaluator(self):
        return UniformEvaluator(2)


class TestUniformEvaluatorWithExtraHeads(EvaluatorContract):
    extra_heads = None

    @pytest.fixture
    def evaluator(self):
        return UniformEvaluator(2, num_actions=9)


class TestFunctionEvaluator(EvaluatorContract):
    extra_heads = 1
    missing = V2

    @pytest.fixture
    def evaluator(self):
        return FunctionEvaluator(sound)


async def hold_to_contract(evaluator, **facts):
    """Run every test of the contract; `facts` are those that a subclass states."""
    contract = type("TestIt", (EvaluatorContract,), facts)()
    for name in vars(EvaluatorContract):
        if name.startswith("test_"):
            await getattr(contract, name)(evaluator)


class Unsound(FunctionEvaluator):
    """Changes its sound evaluations."""

    def __init__(self, **changes):
        super().__init__(sound)
        self._changes = changes

    async def evaluate(self, batch, *, version):
        found = await super().evaluate(batch, version=version)
        return replace(found, **{name: change(getattr(found, name), batch) for name, change in self._changes.items()})


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"version": lambda version, _: V2}, "requested version 1 replies, not 2"),
        ({"policy": lambda policy, _: policy.astype(np.float32)}, "policy is float16, not float32"),
        ({"policy": lambda policy, _: policy[:, :-1]}, "shape .* of legal"),
        ({"policy": lambda policy, _: policy * np.float16(0.5)}, "sums to 1"),
        ({"policy": lambda policy, _: np.full_like(policy, 1 / 9)}, "0 at padding"),
        ({"policy": lambda policy, _: policy * np.float16(np.nan)}, "finite and not negative"),
        ({"value": lambda value, _: value.astype(np.float64)}, "value is float32, not float64"),
        ({"value": lambda value, _: value[:, :1]}, r"value has the shape \(\d+, 2\)"),
        ({"value": lambda value, _: value + 2}, r"in \[-1, 1\]"),
        ({"value": lambda value, batch: value * np.linspace(0, 1, len(value), dtype=np.float32)[:, None]}, "its own row"),
        ({"extra_heads": lambda heads, _: ()}, "1 requested extra heads are returned, not 0"),
        ({"extra_heads": lambda heads, _: tuple(head.ravel() for head in heads)}, "an extra head has the shape"),
        ({"extra_heads": lambda heads, _: tuple(head.astype(int) for head in heads)}, "float16 or float32, not int64"),
        ({"extra_heads": lambda heads, _: tuple(np.full_like(head, np.nan) for head in heads)}, "extra heads are finite"),
        ({"extra_heads": lambda heads, batch: tuple(batch.states[:, :1].astype(np.float32) for _ in range(1))}, "not 1"),
        ({"policy": lambda policy, batch: policy if policy.size else policy[:, :0]}, "no positions have a policy"),
        ({"value": lambda value, batch: value if value.size else np.zeros((1, 2), np.float32)}, "no positions have no values"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
async def test_the_contract_suite_names_the_promise_that_an_evaluator_breaks(changes, promise):
    with pytest.raises(AssertionError, match=promise):
        await hold_to_contract(Unsound(**changes), extra_heads=1)


async def test_the_contract_suite_finds_an_evaluation_that_is_a_view_of_the_batch():
    class View(FunctionEvaluator):
        async def evaluate(self, batch, *, version):
            found = await super().evaluate(batch, version=version)
            return replace(found, extra_heads=(batch.states.view(np.float16)[:, :1],) if batch.extra_heads else ())

    with pytest.raises(AssertionError, match="overwrites the batch"):
        await hold_to_contract(View(sound), game=games.make("connect_four"), extra_heads=1)


@pytest.mark.parametrize(
    ("facts", "refusal"), [({"extra_heads": 0}, "InvalidRequest"), ({"extra_heads": None, "missing": V1}, "ModelNotFound")]
)
async def test_the_contract_suite_finds_an_evaluator_that_refuses_nothing(facts, refusal):
    with pytest.raises(pytest.fail.Exception, match=f"DID NOT RAISE .*{refusal}"):
        await hold_to_contract(UniformEvaluator(2, num_actions=9), **facts)


async def test_the_contract_suite_finds_an_evaluator_that_a_cancelled_request_leaves_broken():
    class Fragile(FunctionEvaluator):
        broken = False

        async def evaluate(self, batch, *, version):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.broken = True
                raise
            found = await super().evaluate(batch, version=version)
            return replace(found, policy=found.policy[:0]) if self.broken else found

    with pytest.raises(AssertionError, match="again after its request was cancelled"):
        await hold_to_contract(Fragile(sound), extra_heads=1)
