"""Opponents of a person that are models: the root of their own moves, and that of hints."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from games.core import make
from zerofleet.evaluators.base import Evaluation
from zerofleet.library.opponents import ModelOpponent


class Certain:
    """Evaluator whose policy is all but sure of the last legal move; all values are 0."""

    async def evaluate(self, batch, *, version):
        policy = np.where(batch.legal >= 0, 1e-4, 0.0)
        policy[np.arange(len(batch)), (batch.legal >= 0).sum(axis=1) - 1] = 1.0
        policy /= policy.sum(axis=1, keepdims=True)
        return Evaluation(policy.astype(np.float16), np.zeros((len(batch), 2), np.float32), version)


async def visited(opponent: ModelOpponent) -> int:
    """Return the number of first moves that the search for a move visits."""
    begun = []
    await opponent.choose([], seed=0, began=begun.append)
    node, _ = await begun[0].root()
    return int((node.visit_counts > 0).sum())


@pytest.fixture
def opponent():
    return ModelOpponent(make("connect_four"), Certain(), name="champion", version=1, simulations=56)


async def test_a_number_of_simulations_is_shared_out_among_the_moves_as_in_matches(opponent):
    assert await visited(opponent) == 7


async def test_a_hint_searches_where_the_policy_leads_and_can_be_stopped_at_any_time(opponent):
    analysis = await opponent.analyse([], seed=0)
    assert (analysis.visits > 0).sum() < 7


async def test_a_budget_of_time_searches_as_a_hint_does():
    given = {"name": "champion", "version": 1, "simulations": 0, "limit_s": 1.0, "clock": itertools.count(0, 0.1).__next__}
    opponent = ModelOpponent(make("connect_four"), Certain(), **given)
    assert await visited(opponent) < 7
