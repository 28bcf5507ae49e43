"""The publisher: games that wait go to the stream together, in order, within bounds."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from selfplay_worker import publisher as module
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.publisher import MAX_GAMES, Publisher
from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import Unavailable
from zerofleet.storage.streams import MemoryStream, Publication
from zerofleet.telemetry import metrics


class Counted(MemoryStream):
    """Stream that notes the games of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    async def publish_all(self, games: list[Publication]) -> None:
        self.calls.append([game.uid for game in games])
        await super().publish_all(games)


def uids(count: int) -> list[str]:
    return [f"{number:032x}" for number in range(count)]


async def published(stream: MemoryStream, games: Sequence[FinishedGame]) -> list[str]:
    """Publish games that all wait at once; return the uids in the stream."""
    publisher = Publisher(stream, "tic_tac_toe", capacity=8, rng=random.Random(0))
    for game in games:
        publisher.hand_over(game)
    running = asyncio.create_task(publisher.run())
    async with asyncio.timeout(60):
        await publisher.flush()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [delivery.uid for delivery in await stream.consume(consumer="a", limit=1_000, block_s=0.0)]


async def test_games_that_wait_are_published_together_and_in_order() -> None:
    stream, names = Counted(), uids(2 * MAX_GAMES + 3)
    assert await published(stream, [FinishedGame(uid, b"record") for uid in names]) == names
    assert [len(call) for call in stream.calls] == [MAX_GAMES, MAX_GAMES, 3]


async def test_large_games_are_published_by_their_bytes_and_one_above_the_bound_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    stream, names = Counted(), uids(5)
    sizes = [60, 40, 1, 500, 100]
    games = [FinishedGame(uid, bytes(size)) for uid, size in zip(names, sizes, strict=True)]
    assert await published(stream, games) == names
    assert stream.calls == [names[:2], names[2:3], names[3:4], names[4:]]


async def test_a_refused_game_does_not_take_others_with_it() -> None:
    stream, names, settled = Counted(), uids(4), []
    sizes = [1, 1, MAX_RECORD_BYTES + 1, 1]
    games = [
        FinishedGame(uid, bytes(size), when_settled=lambda uid=uid: settled.append(uid))
        for uid, size in zip(names, sizes, strict=True)
    ]
    assert await published(stream, games) == [names[0], names[1], names[3]]
    assert settled == names


class Half(MemoryStream):
    """Stream that is away after each game, until it has all."""

    async def publish_all(self, games: list[Publication]) -> None:
        await super().publish_all([games.pop(0)])
        if games:
            raise Unavailable("full")


async def test_games_that_the_stream_has_are_not_published_again_when_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "MAX_PAUSE_S", 0.001)
    names, settled = uids(5), []
    games = [FinishedGame(uid, b"record", when_settled=lambda uid=uid: settled.append(uid)) for uid in names]
    assert await published(Half(), games) == names
    assert settled == names


class Stuck(MemoryStream):
    """Stream that takes two games and then no more."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = asyncio.Event()

    async def publish_all(self, games: list[Publication]) -> None:
        await super().publish_all([games.pop(0), games.pop(0)])
        self.is_stuck.set()
        await asyncio.Event().wait()


async def test_a_cancelled_publisher_settles_the_games_of_a_call_that_the_stream_has() -> None:
    stream, names, settled = Stuck(), uids(5), []
    publisher = Publisher(stream, "tic_tac_toe", capacity=8, rng=random.Random(0))
    for uid in names:
        publisher.hand_over(FinishedGame(uid, b"record", when_settled=lambda uid=uid: settled.append(uid)))
    before = metrics.GAMES_ABANDONED.labels(reason="unpublished")._value.get()
    running = asyncio.create_task(publisher.run())
    async with asyncio.timeout(60):
        await stream.is_stuck.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert settled == names[:2]
    assert metrics.GAMES_ABANDONED.labels(reason="unpublished")._value.get() - before == 3
