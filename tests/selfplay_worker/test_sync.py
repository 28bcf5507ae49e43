"""Games and versions in lockstep, and exploration that falls over a run."""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from worker_at_work import changed, working

from games.core import Game
from selfplay_worker import worker as worker_module
from selfplay_worker.exploration import ExplorationSchedule
from selfplay_worker.settings import WorkerSettings
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import ConfigurationError, CorruptModel, ModelNotFound, Unavailable
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.presets import SelfPlaySettings
from zerofleet.storage.streams import Publication

SYNC = {"mode": "afterstates", "sync": True, "lanes": 1, "slots": 1, "deep_opening_share": 0.0, "forked_opening_share": 0.0}
GAMES = 6


async def test_one_game_is_played_with_each_version(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    evaluator.served = set(range(1, GAMES + 1))
    async with working(game, changed(settings, selfplay=SYNC), evaluator, stream, promotions):
        for version in range(1, GAMES + 1):
            promotions.promote(version)
            await stream.until(version)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await evaluator.until_asked()  # no other game begins before the next version
    assert stream.calls == GAMES
    played = [list(decode_record(payload).seat_versions) for payload in stream.published.values()]
    assert played == [[version, version] for version in range(1, GAMES + 1)]


async def test_a_restarted_worker_repeats_the_game_of_its_version_also_on_another_host(
    game: Game,
    settings: WorkerSettings,
    make_stream: Callable[[], Any],
    evaluator: Any,
    make_promotions: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluator.served = {4}
    found = []
    for host in ("one", "another"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        stream, promotions = make_stream(), make_promotions()
        promotions.promote(4)
        sync = changed(settings, selfplay=SYNC, incarnation=0, worker_id="")
        async with working(game, sync, evaluator, stream, promotions):
            await stream.until(1)
        found.append({uid: list(decode_record(payload).moves) for uid, payload in stream.published.items()})
    assert found[0] == found[1]
    assert len(found[0]) == 1


class TrainerAsStream:
    """A stream whose reader stores each game, learns from it and promotes the version, before the next one arrives."""

    def __init__(self, training: Any, promotions: Any) -> None:
        self.training = training
        self.promotions = promotions
        self.weights: list[bytes] = []
        self.done = asyncio.Event()

    async def publish_all(self, games: list[Publication]) -> None:
        training = self.training
        game = games.pop()
        training.replay.keep([AcceptedGame(game.uid, game.payload, training.replay.read(game.payload))])
        assert not training.candidate_due
        training.train(60.0, lambda: False)
        assert training.candidate_due
        self.weights.append(b"".join(array.tobytes() for array in training.learner.net))
        if len(self.weights) == GAMES:
            self.done.set()
        self.promotions.promote(training.publish_candidate())


@pytest.mark.slow
async def test_two_runs_with_the_same_seed_learn_the_same_weights_bit_by_bit(
    game: Game, settings: WorkerSettings, make_promotions: Callable[[], Any], tmp_path: Path
) -> None:
    found = []
    for run in ("first", "second"):
        training = open_training(
            TrainerSettings(
                run_dir=tmp_path / run,
                game="tic_tac_toe",
                preset="tiny",
                train={"learner": "td_lambda"},
                td_lambda={"hidden": 4, "publish_every_games": 1},
            ),
            game,
        )
        promotions = make_promotions()
        promotions.promote(1)
        stream = TrainerAsStream(training, promotions)
        sync = changed(settings, selfplay={**SYNC, "opening_plies": 8}, incarnation=0)
        async with working(game, sync, InProcessEvaluator(training.store, game), stream, promotions):
            await stream.done.wait()
        assert training.learner.state.step == len(training.replay.log)  # a game without positions is a step too
        training.replay.close()
        found.append(stream.weights[:GAMES])
    assert found[0] == found[1]
    assert len(set(found[0])) > GAMES / 2


@pytest.mark.parametrize("promoted", [False, True])
async def test_a_worker_that_would_play_its_games_to_their_end_stops_at_once_without_one(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, promoted: bool
) -> None:
    finishing = changed(settings, drain="finish", grace_s=120.0, selfplay=SYNC)
    async with asyncio.timeout(50), working(game, finishing, evaluator, stream, promotions):
        if promoted:
            promotions.promote(1)
            await stream.until(1)  # the next game waits for version 2


@pytest.mark.parametrize("wrong", [{"lanes": 2}, {"slots": 4}, {"mode": "search"}, {"forked_opening_share": 0.1}])
def test_a_worker_with_several_games_refuses_to_play_in_lockstep(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, wrong: dict[str, Any]
) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigurationError, match=rf"selfplay\.sync=true.*selfplay\.{name}=.* \(it is {value}\)"):
        worker_module.SelfPlay(game, changed(settings, selfplay=SYNC | wrong), evaluator=evaluator, stream=stream)


def schedule(games_of: Callable[[int], int], **settings: Any) -> ExplorationSchedule:
    return ExplorationSchedule(SelfPlaySettings(**settings), games_of, rng=None)  # type: ignore[arg-type]


async def test_exploration_falls_by_epochs_of_the_games_that_a_version_was_trained_on() -> None:
    falling = schedule(lambda version: version * 5_000, exploration_decay=0.8)
    temperatures = [0.3 * await falling.share_of(version) for version in (0, 1, 2, 4, 18)]
    assert temperatures == pytest.approx([0.3, 0.3, 0.24, 0.192, 0.0403], abs=5e-5)  # epochs 1, 1, 2, 3 and 10 of the thesis
    assert not falling.is_constant
    assert schedule(lambda _: 0).is_constant


async def test_exploration_waits_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfplay_worker.exploration.FIRST_PAUSE_S", 0.001)
    answers = iter([Unavailable("away"), Unavailable("away"), 10_000])

    def games_of(version: int) -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await schedule(games_of, exploration_decay=0.5).share_of(3) == 0.5


@pytest.mark.parametrize("error", [ModelNotFound("no version 2"), CorruptModel("its manifest is not JSON")])
async def test_a_version_that_has_gone_from_the_store_or_is_unreadable_explores_as_the_one_before_it(error: Exception) -> None:
    def games_of(version: int) -> int:
        if version == 2:
            raise error
        return 10_000 * version

    falling = schedule(games_of, exploration_decay=0.5)
    with structlog.testing.capture_logs() as logs:
        assert [await falling.share_of(version) for version in (1, 2, 3)] == [0.5, 0.5, 0.125]
    assert [(line["event"], line["version"]) for line in logs] == [("exploration.version_gone", 2)]


async def test_a_worker_explores_as_far_as_its_version_allows_and_reads_it_once_beside_the_search(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[int, str]] = []

    def games_of(version: int) -> int:
        looked.append((version, threading.current_thread().name.partition("_")[0]))
        return (version - 1) * 10_000

    monkeypatch.setattr(worker_module, "_games_of", lambda game, settings: games_of)
    evaluator.served = {1, 2}
    falling = changed(settings, selfplay={"mode": "afterstates", "exploration_decay": 0.001})
    falling = falling.model_copy(update={"afterstates": falling.afterstates.model_copy(update={"temperature": 1.0})})
    promotions.promote(1)
    async with working(game, falling, evaluator, stream, promotions):
        await stream.until(40)
        promotions.promote(2)
        await stream.until(120)
    explored: dict[int, list[bool]] = {1: [], 2: []}
    for payload in stream.published.values():
        chosen = validate(decode_record(payload)).search
        for version, flags in zip(chosen.model_version.tolist(), chosen.flags.tolist(), strict=True):
            explored[version].append(bool(flags & EXPLORATORY))
    assert any(explored[1])
    assert len(explored[2]) > 100
    assert not any(explored[2])
    assert [version for version, _ in looked] == [1, 2]  # once for both lanes
    assert "search" not in {thread for _, thread in looked}  # which would wait
