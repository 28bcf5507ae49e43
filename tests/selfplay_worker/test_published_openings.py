"""Openings of the games that a whole worker publishes."""

from typing import Any

import numpy as np
import pytest
from worker_at_work import changed, working

from games.core import Game
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.records import decode_record, validate
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import UniformEvaluator


async def test_published_games_begin_with_random_plies_that_are_not_samples(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"opening_plies": 3}), evaluator, stream, promotions):
        await stream.until(24)
    played = [validate(decode_record(payload)) for payload in stream.published.values()]
    first_searched = {int(record.search.ply[0]) for record in played}
    assert first_searched == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", ["deep", "balanced", "forked"])
async def test_published_games_begin_with_openings_of_every_kind(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, kind: str
) -> None:
    """Balanced and forked lines share the requests of the search; the record reproduces the game."""
    promotions.promote(1)
    chosen = {f"{kind}_opening_share": 1.0, "deep_opening_plies": (2, 4), "forked_opening_choices": 3}
    async with working(game, changed(settings, selfplay=chosen), evaluator, stream, promotions):
        await stream.until(40)
    played = [validate(decode_record(payload)) for payload in stream.published.values()]
    first_searched = [int(record.search.ply[0]) for record in played if len(record.search.ply)]  # a late fork leaves no choice
    if kind == "forked":
        assert set(first_searched[8:]) > {0, 1, 2, 3}  # the first games of the slots find no finished game
    else:
        assert set(first_searched) == {2, 3, 4}


class LikesEvenPlies:
    """Evaluator that considers positions after an even number of plies of tic-tac-toe equal, others won."""

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        uniform = await UniformEvaluator(2).evaluate(batch, version=version)
        plies = 9 - (batch.legal >= 0).sum(axis=1)
        won = (plies % 2).astype(np.float32)
        return Evaluation(uniform.policy, np.stack([won, -won], axis=1), version)


async def test_each_balanced_opening_is_chosen_by_the_values_of_its_own_lines(
    game: Game, settings: WorkerSettings, stream: Any, promotions: Any
) -> None:
    """The lines of several games and the leaves of others share a request, so rows could be mixed up."""
    promotions.promote(1)
    chosen = {
        "balanced_opening_share": 0.7,
        "balanced_opening_choices": 16,
        "balanced_opening_sharpness": 1000.0,
        "deep_opening_plies": (2, 5),
        "opening_plies": 1,
    }
    async with working(game, changed(settings, selfplay=chosen), LikesEvenPlies(), stream, promotions):
        await stream.until(100)
    first_searched = [int(validate(decode_record(payload)).search.ply[0]) for payload in stream.published.values()]
    assert {plies for plies in first_searched if plies > 1} == {2, 4}
