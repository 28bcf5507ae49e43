"""The contract of an `Evaluator`, as tests for an evaluator of your own.

class TestMyEvaluator(EvaluatorContract):
    version = ModelVersion(7)

    @pytest.fixture
    def evaluator(self):
        return MyEvaluator()
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import games
from games.core import Game
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion

__all__ = ["EvaluatorContract"]

SUM_TOLERANCE = 0.005
"""Allowance for rounding to float16 in the sum of a policy."""
BATCH_TOLERANCE = 0.05
"""Maximum effect of the other rows of a batch on a row, from the order of additions in reduced precision."""
_GAMES = 6


class EvaluatorContract:
    """Tests of an `Evaluator` on positions of a game. A subclass has the fixture `evaluator`."""

    pytestmark = pytest.mark.asyncio

    game: Game = games.make("tic_tac_toe")
    """Game whose positions are evaluated."""
    version: ModelVersion = ModelVersion(1)
    """Version that the evaluator has."""
    extra_heads: int | None = 0
    """Number of extra heads of that version; None: as many as are asked for."""
    missing: ModelVersion | None = None
    """Version that the evaluator does not have; None where it has every version."""

    async def test_each_row_has_a_policy_and_values_within_their_bounds(self, evaluator: Evaluator) -> None:
        batch = self._batch()
        found = await evaluator.evaluate(batch, version=self.version)
        policy, value, listed = found.policy, found.value, batch.legal >= 0
        assert found.version == self.version, f"the requested version {self.version} replies, not {found.version}"
        assert policy.dtype == np.float16, f"the policy is float16, not {policy.dtype}"
        assert policy.shape == batch.legal.shape, f"the policy has the shape {batch.legal.shape} of legal, not {policy.shape}"
        assert np.isfinite(policy).all(), "probabilities are finite and not negative"
        assert (policy >= 0.0).all(), "probabilities are finite and not negative"
        assert (policy[~listed] == 0.0).all(), "the policy is 0 at padding"
        sums = policy.sum(axis=1, dtype=np.float64)
        assert (np.abs(sums - 1.0) <= SUM_TOLERANCE).all(), f"each row of the policy sums to 1, not {sums.tolist()}"
        wanted = (len(batch), self.game.spec().num_players)
        assert value.dtype == np.float32, f"the value is float32, not {value.dtype}"
        assert value.shape == wanted, f"the value has the shape {wanted}, not {value.shape}"
        assert (np.abs(value) <= 1.0).all(), "expected scores are in [-1, 1]"
        _check_extra_heads(found, batch)

    async def test_an_evaluation_does_not_change_when_the_next_step_of_the_search_overwrites_the_batch(
        self, evaluator: Evaluator
    ) -> None:
        batch = self._batch()
        found = await evaluator.evaluate(batch, version=self.version)
        before = [array.copy() for array in _arrays(found)]
        batch.states[:], batch.legal[:] = 0, -1
        same = all(np.array_equal(now, then) for now, then in zip(_arrays(found), before, strict=True))
        assert same, "an evaluation does not change when the next step of the search overwrites the batch"

    async def test_each_position_is_evaluated_at_its_own_row(self, evaluator: Evaluator) -> None:
        batch = self._batch()
        found = _arrays(await evaluator.evaluate(batch, version=self.version))
        reversed_batch = LeafBatch(batch.states[::-1], batch.legal[::-1], batch.extra_heads)
        turned = _arrays(await evaluator.evaluate(reversed_batch, version=self.version))
        near = all(np.allclose(now[::-1], then, atol=BATCH_TOLERANCE) for now, then in zip(turned, found, strict=True))
        assert near, "each position is evaluated at its own row, whichever other rows the batch has"

    async def test_no_extra_heads_are_answered_unasked(self, evaluator: Evaluator) -> None:
        plain = replace(self._batch(), extra_heads=0)
        _check_extra_heads(await evaluator.evaluate(plain, version=self.version), plain)

    async def test_no_positions_are_evaluated_to_no_rows(self, evaluator: Evaluator) -> None:
        batch = self._batch()
        empty = LeafBatch(batch.states[:0], batch.legal[:0], batch.extra_heads)
        found = await evaluator.evaluate(empty, version=self.version)
        assert found.policy.shape == empty.legal.shape, f"no positions have a policy of {empty.legal.shape}"
        assert len(found.value) == 0, "no positions have no values"
        _check_extra_heads(found, empty)

    async def test_a_batch_can_be_evaluated_again_after_its_request_was_cancelled(self, evaluator: Evaluator) -> None:
        batch = self._batch()
        task = asyncio.ensure_future(evaluator.evaluate(batch, version=self.version))
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        again = await evaluator.evaluate(batch, version=self.version)
        assert len(again.policy) == len(batch), "a batch can be evaluated again after its request was cancelled"

    async def test_more_extra_heads_than_there_are_are_refused(self, evaluator: Evaluator) -> None:
        if self.extra_heads is not None:
            more = replace(self._batch(), extra_heads=self.extra_heads + 1)
            with pytest.raises(InvalidRequest):
                await evaluator.evaluate(more, version=self.version)

    async def test_a_version_that_is_not_there_is_refused(self, evaluator: Evaluator) -> None:
        if self.missing is not None:
            with pytest.raises(ModelNotFound):
                await evaluator.evaluate(self._batch(), version=self.missing)

    def _batch(self) -> LeafBatch:
        """Return positions of random games, in arrays of their own."""
        return LeafBatch(
            *sample_positions(self.game, games=_GAMES, seed=0), 2 if self.extra_heads is None else self.extra_heads
        )


def _check_extra_heads(found: Evaluation, batch: LeafBatch) -> None:
    count = len(found.extra_heads)
    assert count == batch.extra_heads, f"{batch.extra_heads} requested extra heads are returned, not {count}"
    for head in found.extra_heads:
        assert head.ndim == 2, f"an extra head has the shape [{len(batch)}, W], not {head.shape}"
        assert len(head) == len(batch), f"an extra head has the shape [{len(batch)}, W], not {head.shape}"
        assert head.dtype in (np.float16, np.float32), f"an extra head is float16 or float32, not {head.dtype}"
        assert np.isfinite(head).all(), "extra heads are finite"


def _arrays(found: Evaluation) -> tuple[np.ndarray, ...]:
    return (found.policy, found.value, *found.extra_heads)
