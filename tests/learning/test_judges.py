"""Judges: a network that knows the perfect moves gets every point, a uniform one few."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games.positions import encode_for
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.learning.judges import MatchJudge, PerfectJudge
from zerofleet.strength.learning.positions import ScoredPosition, deciding_positions

GAME = games.make("tic_tac_toe")


class KnowingEvaluator:
    """Evaluator that gives the best move of known positions all of the policy."""

    def __init__(self, positions: list[ScoredPosition]) -> None:
        self._best = {}
        for position in positions:
            state = games.replay(GAME, position.moves)
            key = encode_for(GAME, state, len(position.moves) % 2).tobytes()
            self._best[key] = position.actions[int(np.argmax(position.scores))]

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        best = [self._best[state.tobytes()] for state in batch.states]
        policy = (batch.legal == np.array(best)[:, None]).astype(np.float16)
        return Evaluation(policy, np.zeros((len(batch), 2), np.float32), version)


@pytest.fixture(scope="module")
def positions() -> list[ScoredPosition]:
    return deciding_positions(GAME, count=60, seed=1)


async def test_a_policy_of_best_moves_has_every_share(positions):
    measures = await PerfectJudge(GAME, positions, simulations=0).judge(KnowingEvaluator(positions), 1)
    assert [(one.name, one.value, one.of) for one in measures] == [
        ("policy alone, sign", 1.0, 60),
        ("policy alone, exact", 1.0, 60),
    ]
    assert measures[0].low < 0.95
    assert measures[0].high == pytest.approx(1.0)


@pytest.mark.slow
async def test_a_search_keeps_more_values_than_the_uniform_policy(positions):
    measures = await PerfectJudge(GAME, positions, simulations=100).judge(UniformEvaluator(2), 1)
    shares = {one.name: one.value for one in measures}
    assert list(shares) == ["policy alone, sign", "policy alone, exact", "100 simulations, sign", "100 simulations, exact"]
    assert shares["policy alone, sign"] < 0.7 < shares["100 simulations, sign"]


@pytest.mark.slow
async def test_matches_give_the_share_of_points_against_each_opponent_and_repeat_exactly():
    def judge():
        return MatchJudge(GAME, ("random", "perfect"), games=20, simulations=60, seed=3, opening_plies=1)

    measures = await judge().judge(UniformEvaluator(2), 1)
    assert [one.name for one in measures] == ["points against random", "points against perfect"]
    assert measures[0].value > 0.6 > measures[1].value
    assert all(one.low <= one.value <= one.high and one.of == 20 for one in measures)
    assert await judge().judge(UniformEvaluator(2), 1) == measures
