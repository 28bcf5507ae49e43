"""The mode before self-play: agents play until there is a champion, then the champion does; killed workers lose nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from worker_at_work import value_of

from games.core import Game
from selfplay_worker import warm_start as warm_start_module
from selfplay_worker import worker as worker_module
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.teaching import Teachers
from selfplay_worker.worker import SelfPlay
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import InvalidRequest, PermissionRefused
from zerofleet.presets.warm_start import NumberedGame
from zerofleet.search import PlayedGame
from zerofleet.service.lifecycle import Service, serve_until_drained
from zerofleet.storage.streams import Publication, SqliteStream
from zerofleet.telemetry import metrics

GAMES = 12


@pytest.fixture
def warm(settings: WorkerSettings) -> WorkerSettings:
    chosen = {"games": GAMES, "agents": "alpha_beta:1,random", "parallel": 2}
    return settings.model_copy(update={"warm_start": settings.warm_start.model_copy(update=chosen)})


@asynccontextmanager
async def working(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, *, has_champion: bool = False
) -> AsyncIterator[None]:
    """Run a worker as its process would; leaving the block asks it to end."""
    running = asyncio.Event()

    async def known() -> bool:
        return has_champion

    async def main(service: Service) -> None:
        running.set()
        worker = SelfPlay(game, settings, evaluator=evaluator, stream=stream)
        await worker.run(service, promotions.watch(), has_champion=known)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(serve_until_drained(main, settings))
        await running.wait()
        yield
        os.kill(os.getpid(), signal.SIGTERM)
        assert await task == 0


async def test_agents_play_their_games_and_then_the_champion_plays(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    async with working(game, warm, stream, evaluator, promotions):
        await stream.until(GAMES)
        assert evaluator.asked == []
        promotions.promote(1)
        await stream.until(GAMES + 5)
    found = [validate(decode_record(payload)).record for payload in stream.published.values()]
    of_agents = [record for record in found if record.seat_agents]
    assert len(of_agents) == GAMES
    assert Counter(record.seat_agents[0] for record in of_agents) == {"alpha_beta:1": GAMES / 2, "random": GAMES / 2}
    assert all(list(record.seat_versions) == [1, 1] for record in found if not record.seat_agents)


async def test_the_code_of_self_play_is_compiled_once_while_the_trainer_learns_from_the_games_of_agents(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, warmed, compiled = asyncio.get_running_loop(), asyncio.Event(), []

    def warm_up(*given: Any) -> None:
        compiled.append(len(stream.published))
        loop.call_soon_threadsafe(warmed.set)

    monkeypatch.setattr(worker_module, "warm_up", warm_up)
    async with working(game, warm, stream, evaluator, promotions):
        await warmed.wait()
        promotions.promote(1)
        await stream.until(GAMES + 1)
    assert compiled == [GAMES]


async def test_no_warm_start_is_played_when_there_is_a_champion_already(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    promotions.promote(1)
    async with working(game, warm, stream, evaluator, promotions, has_champion=True):
        await stream.until(3)
    assert not any(decode_record(payload).seat_agents for payload in stream.published.values())


async def test_a_restarted_worker_plays_only_the_missing_games(
    game: Game, warm: WorkerSettings, make_stream: Callable[[], Any], evaluator: Any, make_promotions: Callable[[], Any]
) -> None:
    first, second = make_stream(), make_stream()
    async with working(game, warm, first, evaluator, make_promotions()):
        await first.until(3)
    async with working(game, warm, second, evaluator, make_promotions()):
        await second.until(GAMES - len(first.published))
    assert not first.published.keys() & second.published.keys()
    assert len(first.published) + len(second.published) == GAMES


@pytest.mark.parametrize("refused", [set(), {3}])
async def test_games_are_replayed_with_their_uids_when_no_champion_comes_also_after_one_that_was_refused(
    game: Game,
    warm: WorkerSettings,
    stream: Any,
    evaluator: Any,
    promotions: Any,
    monkeypatch: pytest.MonkeyPatch,
    refused: set[int],
) -> None:
    monkeypatch.setattr(warm_start_module, "AGAIN_AFTER_S", 0.01)
    stream.refuses = refused
    async with working(game, warm, stream, evaluator, promotions):
        while stream.calls < 2 * GAMES:
            await stream.reached.get()
    assert len(stream.published) == GAMES


async def test_each_wait_before_the_games_are_replayed_is_twice_as_long_as_the_one_before(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    waited, until_champion = asyncio.Event(), warm_start_module.WarmStart._until_champion

    async def pass_thrice(self: Any, wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 4:
            waited.set()
            await until_champion(self, wait_s)

    monkeypatch.setattr(warm_start_module.WarmStart, "_until_champion", pass_thrice)
    async with working(game, warm, stream, evaluator, promotions):
        await waited.wait()
    assert waits == [900.0, 1800.0, 3600.0, 7200.0]


async def test_games_waiting_for_the_stream_at_the_end_are_published(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any
) -> None:
    stream.away = True
    async with working(game, warm, stream, evaluator, promotions):
        assert await stream.reached.get() == -1
        stream.away = False
    assert stream.published


async def test_a_worker_that_plays_the_games_of_agents_to_their_end_then_stops_without_waiting_for_a_champion(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, may_end, play = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), Teachers.play
    compiled: list[int] = []

    def held(self: Teachers, numbered: NumberedGame, stopping: Callable[[], bool]) -> PlayedGame | None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(30)
        return play(self, numbered, stopping)

    async def stop_games(self: SelfPlay) -> None:
        loop.call_soon(may_end.set)
        await stop(self)

    stop = SelfPlay._stop_games
    monkeypatch.setattr(Teachers, "play", held)
    monkeypatch.setattr(SelfPlay, "_stop_games", stop_games)
    monkeypatch.setattr(worker_module, "warm_up", lambda *_given: compiled.append(len(stream.published)))
    at_once = warm.warm_start.model_copy(update={"agents": "random"})
    finishing = warm.model_copy(update={"drain": "finish", "grace_s": 8.0, "warm_start": at_once})
    async with working(game, finishing, stream, evaluator, promotions):
        await begun.wait()
    assert compiled == []
    assert len(stream.published) == warm.warm_start.parallel


async def test_games_of_agents_that_a_champion_interrupts_count_as_stale(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    stale, drained = (metrics.GAMES_ABANDONED.labels(reason=reason) for reason in ("stale", "drain"))
    before = value_of(stale), value_of(drained)
    counts: list[tuple[float, float]] = []

    def endless(_self: Teachers, _numbered: NumberedGame, stopping: Callable[[], bool]) -> None:
        loop.call_soon_threadsafe(begun.set)
        never = threading.Event()
        while not stopping():
            never.wait(0.001)

    def warm_up(*_given: Any) -> None:  # after the games of agents
        counts.append((value_of(stale), value_of(drained)))

    monkeypatch.setattr(Teachers, "play", endless)
    monkeypatch.setattr(worker_module, "warm_up", warm_up)
    async with working(game, warm, stream, evaluator, promotions):
        await begun.wait()
        promotions.promote(1)
        await stream.until(1)
    assert counts == [(before[0] + warm.warm_start.parallel, before[1])]


async def test_the_random_plies_of_an_opening_are_no_moves_that_agents_chose(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, play, chosen = value_of(metrics.SELFPLAY_MOVES), Teachers.play, []

    def note(self: Teachers, numbered: NumberedGame, stopping: Callable[[], bool]) -> PlayedGame | None:
        played = play(self, numbered, stopping)
        if played is not None:
            chosen.append((len(played.moves) - played.opening_plies, played.opening_plies))
        return played

    monkeypatch.setattr(Teachers, "play", note)
    monkeypatch.setattr(worker_module, "warm_up", lambda *_given: None)
    opened = warm.model_copy(update={"selfplay": warm.selfplay.model_copy(update={"opening_plies": 4})})
    async with working(game, opened, stream, evaluator, promotions):
        await stream.until(GAMES)
    assert any(opening for _, opening in chosen)
    assert value_of(metrics.SELFPLAY_MOVES) - before == sum(moves for moves, _ in chosen)


async def test_a_publisher_that_fails_ends_the_games_of_agents_and_leaves_the_event_loop_free(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, play = asyncio.get_running_loop(), Teachers.play
    begun: list[int] = []
    turned: list[bool] = []

    def long(self: Teachers, numbered: NumberedGame, stopping: Callable[[], bool]) -> PlayedGame | None:
        begun.append(numbered.number)
        if len(begun) == 1:
            return play(self, numbered)
        loop.call_soon_threadsafe(stream.open.set)
        turn, never = threading.Event(), threading.Event()
        is_ended = any(stopping() or never.wait(0.01) for _ in range(500))
        loop.call_soon_threadsafe(turn.set)
        turned.append(is_ended and turn.wait(5))
        return None

    async def refuse(games: Sequence[Publication]) -> None:
        await stream.open.wait()
        raise PermissionRefused("the password is wrong")

    async def main(service: Service) -> None:
        await SelfPlay(game, warm, evaluator=evaluator, stream=stream).run(service, promotions.watch())

    stream.open.clear()
    monkeypatch.setattr(Teachers, "play", long)
    monkeypatch.setattr(stream, "publish_all", refuse)
    assert await serve_until_drained(main, warm) == 1
    assert turned
    assert all(turned)


async def test_an_agent_that_does_not_exist_is_refused_at_once(
    game: Game, warm: WorkerSettings, stream: Any, evaluator: Any
) -> None:
    wrong = warm.model_copy(update={"warm_start": warm.warm_start.model_copy(update={"agents": "nobody"})})
    with pytest.raises(InvalidRequest, match="no agent is called 'nobody'"):
        SelfPlay(game, wrong, evaluator=evaluator, stream=stream)


WORKER = """
import asyncio, sys
from pathlib import Path
import games
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.worker import SelfPlay
from zerofleet.service.lifecycle import run_service
from zerofleet.storage.streams import open_stream
from zerofleet.evaluators.uniform import UniformEvaluator

settings = WorkerSettings(
    run_dir=Path(sys.argv[1]), game="tic_tac_toe", preset="tiny", worker_id=sys.argv[2], run_seed=3, log_level="error",
    warm_start={"games": 30, "agents": "random", "parallel": 2}, publish_queue_games=1,
)

async def nobody():
    await asyncio.Event().wait()
    yield

async def serve(service):
    stream = open_stream(settings.stream_url, name="games")
    worker = SelfPlay(settings.build_game(), settings, evaluator=UniformEvaluator(2), stream=stream)
    await worker.run(service, nobody())

sys.exit(run_service(serve, settings))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["worker_before_publish:7", "worker_after_publish:7"])
async def test_killed_workers_neither_omit_nor_add_games(tmp_path: Path, point: str) -> None:
    stream = SqliteStream(tmp_path / "games.db", name="games")

    def start(name: str, crash_at: str = "") -> subprocess.Popen[bytes]:
        environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": crash_at}
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", WORKER, str(tmp_path), name], env=environment)

    died = start("w0", point)
    assert await asyncio.to_thread(died.wait, 60) == -signal.SIGKILL
    others = [start("w0"), start("w1")]
    try:
        async with asyncio.timeout(60):
            while (tmp_path / "warm_start").read_bytes() != b"\x01" * 30:  # noqa: ASYNC110  (files wake nobody)
                await asyncio.sleep(0.02)
    finally:
        for other in others:
            other.terminate()
        codes = [await asyncio.to_thread(other.wait, 60) for other in others]
    assert set(codes) <= {0, -signal.SIGTERM}  # the other may have played everything before this one was up
    uids = Counter(delivery.uid for delivery in await stream.consume(consumer="test", limit=1000, block_s=0))
    await stream.aclose()
    assert len(uids) == 30
    # the last call before a kill, of at most two games, may not have been noted: they are there twice, under one uid each
    assert sum(uids.values()) - len(uids) <= 2
