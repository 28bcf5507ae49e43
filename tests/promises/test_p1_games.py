"""P1 in one process: a game that is published counts once, however often it is sent and delivered."""

from __future__ import annotations

import asyncio
import random

import pytest
from promise_intake import taking
from promise_tools import record

from selfplay_worker.game_register import FinishedGame
from selfplay_worker.publisher import Publisher
from zerofleet.errors import Unavailable
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import MemoryStream, Publication, SqliteStream, StreamSettings

UID, PAYLOAD = record(1)


@pytest.fixture
def stream():
    return MemoryStream()


async def test_p1_a_game_is_trained_on_once_however_often_it_is_delivered(tmp_path, stream):
    with taking(tmp_path, stream) as trainer:
        await stream.publish(UID, PAYLOAD)
        assert len((await trainer.take()).accepted) == 1
        samples = trainer.replay.window.total
        assert samples == len(trainer.replay.read(PAYLOAD)) > 0
        for _ in range(2):
            await stream.publish(UID, PAYLOAD)
        checked = await trainer.take()
        assert (len(checked.accepted), checked.duplicates, checked.refused) == (0, 2, [])
        assert (trainer.uids, trainer.replay.window.total) == ([UID], samples)
        assert trainer.replay.log.append([(UID, PAYLOAD)]) == 0
    assert (await stream.stats()).length == 0


async def test_p1_two_copies_in_one_delivery_count_once(tmp_path, stream):
    with taking(tmp_path, stream) as trainer:
        for _ in range(2):
            await stream.publish(UID, PAYLOAD)
        assert len((await trainer.take()).accepted) == 1
        assert (trainer.uids, trainer.replay.window.total) == ([UID], len(trainer.replay.read(PAYLOAD)))


async def test_p1_a_restarted_trainer_has_all_games_and_recognises_them(tmp_path, stream):
    games = [record(number) for number in range(5)]
    for uid, payload in games:
        await stream.publish(uid, payload)
    with taking(tmp_path, stream) as trainer:
        await trainer.take()
        samples = trainer.replay.window.total
    for uid, payload in games:
        await stream.publish(uid, payload)
    with taking(tmp_path, stream) as trainer:
        assert trainer.replay.window.total == samples
        assert (await trainer.take()).duplicates == len(games)
        assert trainer.replay.window.total == samples
        assert trainer.uids == [uid for uid, _ in games]


class Unsure(MemoryStream):
    """Stores a game in the second call, and reports success from the third call on."""

    calls = 0

    async def publish_all(self, games: list[Publication]) -> None:
        self.calls += 1
        if self.calls > 1:
            await super().publish_all(list(games))  # their list stays as it is: the reply is lost
        if self.calls < 3:
            raise Unavailable("the connection was cut")
        games.clear()


async def test_p1_a_worker_repeats_a_game_until_the_stream_has_it_and_it_counts_once(tmp_path, monkeypatch):
    monkeypatch.setattr("selfplay_worker.publisher.FIRST_PAUSE_S", 0.001)
    stream = Unsure()
    publisher = Publisher(stream, "tic_tac_toe", capacity=4, rng=random.Random(0))
    running = asyncio.create_task(publisher.run())
    publisher.hand_over(FinishedGame(UID, PAYLOAD))
    async with asyncio.timeout(60):
        await publisher.flush()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (stream.calls, (await stream.stats()).length) == (3, 2)
    with taking(tmp_path, stream) as trainer:
        await trainer.take()
        assert trainer.uids == [UID]


async def test_p1_a_game_whose_acknowledgement_was_lost_is_recognised_when_it_comes_again(tmp_path, stream, monkeypatch):
    await stream.publish(UID, PAYLOAD)
    with taking(tmp_path, stream) as trainer:
        with monkeypatch.context() as patch:
            patch.setattr(stream, "acknowledge", _cut)
            await trainer.take()
        samples = trainer.replay.window.total
        trainer.stream = stream.another()  # the connection is opened anew, and the stream delivers the game again
        assert (await trainer.take()).duplicates == 1
        assert (trainer.uids, trainer.replay.window.total) == ([UID], samples)
    assert (await stream.stats()).length == 0


async def _cut(entry_ids):
    raise Unavailable("the connection was cut")


async def test_p1_a_game_that_a_dead_trainer_took_is_delivered_to_the_next_one(tmp_path):
    now_s, settings = [1000.0], StreamSettings(idle_s=60.0)
    dead, next_one = (
        SqliteStream(tmp_path / "games.db", name="games", settings=settings, clock=lambda: now_s[0]) for _ in range(2)
    )
    await dead.publish(UID, PAYLOAD)
    assert [found.uid for found in await dead.consume(consumer="dead", limit=9, block_s=0.0)] == [UID]
    await dead.aclose()
    assert await next_one.consume(consumer="next", limit=9, block_s=0.0) == []
    now_s[0] += settings.idle_s + 1
    (delivery,) = await next_one.consume(consumer="next", limit=9, block_s=0.0)
    assert (delivery.uid, delivery.payload) == (UID, PAYLOAD)
    await next_one.aclose()


def test_p1_games_of_full_files_are_counted_once_before_and_after_a_restart_and_beside_files_of_another_log(tmp_path):
    games, others = ([(f"{7919 * number + first:032x}", b"a game") for number in range(40)] for first in (1, 2))
    for directory, stored in ((tmp_path / "own", games), (tmp_path / "other", others)):
        with GameLog.open(directory, writer=True, segment_bytes=300) as log:
            assert [log.append([game]) for game in stored] == [1] * 40
            assert log.append(stored) == 0
    for path in (tmp_path / "other").glob("*.uids"):
        (tmp_path / "own" / path.name).write_bytes(path.read_bytes())
    with GameLog.open(tmp_path / "own", writer=True, segment_bytes=300) as log:
        assert (log.append(games), len(log)) == (0, 40)
