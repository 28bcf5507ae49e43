"""Running games of a worker when a version is promoted, retired or not served yet."""

import asyncio
from typing import Any

import pytest
from worker_at_work import changed, value_of, working

from games.core import Game
from selfplay_worker.game_register import GameRegister, Ticket
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.records import decode_record, validate
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search import SearchBlock
from zerofleet.telemetry import metrics


@pytest.mark.parametrize(
    ("staleness", "mixed", "abandoned"), [("finish", False, False), ("switch", True, False), ("drop", False, True)]
)
async def test_staleness_decides_what_a_running_game_does_with_a_new_champion(
    game: Game,
    settings: WorkerSettings,
    stream: Any,
    evaluator: Any,
    promotions: Any,
    staleness: str,
    mixed: bool,
    abandoned: bool,
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="stale"))
    evaluator.served = {1, 2}
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"staleness": staleness}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        promotions.promote(2)
        await evaluator.until_asked(2)
        await stream.until(len(stream.published) + 30)
    used = [{move.model_version for move in decode_record(payload).searched} for payload in stream.published.values()]
    assert ({1, 2} in used) == mixed
    assert {2} in used
    assert (value_of(metrics.GAMES_ABANDONED.labels(reason="stale")) > before) == abandoned
    for payload in stream.published.values():
        record = decode_record(payload)
        validate(record)
        versions = [move.model_version for move in record.searched]
        assert versions == sorted(versions)
        assert versions[0] == record.seat_versions[0]


async def test_games_of_a_retired_version_are_dropped_and_play_continues(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone"))
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"staleness": "finish"}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        evaluator.served = {2}
        promotions.promote(2)
        await evaluator.until_asked(2)
        await stream.until(len(stream.published) + 20)
    assert value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone")) > before
    for payload in stream.published.values():
        validate(decode_record(payload))


async def test_no_uniform_evaluation_of_a_version_stays_in_the_cache_for_its_return(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(SearchBlock, "forget", lambda _block, versions: forgotten.extend(versions))
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"staleness": "finish"}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        evaluator.served = {2}
        promotions.promote(2)
        await evaluator.until_asked(2)
        await stream.until(len(stream.published) + 20)
    assert set(forgotten) == {1}


async def test_games_of_a_version_that_is_still_served_go_on_when_an_older_one_is_retired(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[int] = []
    abandon, evaluate = GameRegister.abandon, evaluator.evaluate

    def note(register: GameRegister, ticket: Ticket, reason: str) -> None:
        if reason == "version_gone":
            dropped.append(ticket.version)
        abandon(register, ticket, reason)

    async def retire(batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        if version == 1 and evaluator.served == {1, 2} and 2 in evaluator.asked:  # games of both are in progress
            promotions.promote(3)
            for _ in range(200):
                await asyncio.sleep(0)
            evaluator.served = {2, 3}
        found: Evaluation = await evaluate(batch, version=version)
        return found

    monkeypatch.setattr(GameRegister, "abandon", note)
    monkeypatch.setattr(evaluator, "evaluate", retire)
    evaluator.served = {1, 2}
    promotions.promote(1)
    one_lane = changed(settings, selfplay={"staleness": "finish", "lanes": 1})
    async with working(game, one_lane, evaluator, stream, promotions):
        await evaluator.until_asked(1)
        promotions.promote(2)
        await evaluator.until_asked(3)
        await stream.until(len(stream.published) + 10)
    assert set(dropped) == {1}
    assert 2 in {move.model_version for payload in stream.published.values() for move in decode_record(payload).searched}


@pytest.mark.parametrize("mode", ["search", "afterstates"])
async def test_no_published_move_was_decided_by_a_version_that_gave_no_evaluation_before_its_rollback(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, mode: str
) -> None:
    before = value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone"))
    promotions.promote(1)
    async with working(game, changed(settings, selfplay={"mode": mode}), evaluator, stream, promotions):
        await evaluator.until_asked(1)
        promotions.promote(2)
        await evaluator.until_asked(2)
        promotions.promote(1)
        await stream.until(len(stream.published) + 30)
    assert value_of(metrics.GAMES_ABANDONED.labels(reason="version_gone")) > before
    used = {move.model_version for payload in stream.published.values() for move in decode_record(payload).searched}
    assert used == {1}


async def test_the_worker_waits_for_a_champion_that_is_not_served_yet(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    evaluator.served = set()
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await evaluator.until_asked(1)
        evaluator.served = {1}
        await stream.until(4)
