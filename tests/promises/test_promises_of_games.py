"""P1 to P3: what becomes of a game between the worker that played it and the trainer that learns from it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from promise_proxy import Proxy, to_socket
from promise_tools import FOLDER, GAME, announced, ends, process, record, until

from games.core import make
from trainer.intake import Intake
from trainer.readers.base import RecordReader
from trainer.record_check import RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import open_stream
from zerofleet.telemetry import metrics

pytestmark = pytest.mark.slow

SMALL = [
    *("--network.blocks", "1", "--network.channels", "8", "--network.policy-channels", "2", "--network.value-channels", "2"),
    *("--network.value-hidden", "8", "--train.batch-size", "16", "--train.min-samples", "20", "--intake-games", "8"),
]


def stored(directory) -> list[str]:
    with GameLog.open(directory, writer=False) as log:
        return list(log.uids())


async def told(publisher) -> list[int]:
    """Return the games that a publisher was told are in the stream, once it has ended."""
    output, _ = await publisher.communicate()
    return [int(line) for line in output.split()]


async def test_p1_a_published_game_is_trained_on_and_counted_once_across_sigkill_of_any_process(tmp_path, make_redis_server):
    redis = make_redis_server()
    redis.start()
    stream = open_stream(redis.url, name="games")
    publish = [str(FOLDER / "publisher_process.py"), redis.url]
    train = ["-m", "trainer", "--run-dir", str(tmp_path), "--game", GAME, "--preset", "tiny", *SMALL]
    train += ["--stream-url", redis.url, "--consumer", "trainer", "--announce", str(tmp_path / "ready.json")]

    # The trainer dies after it has stored games and before it says so; the worker after the stream has four more, untold.
    dying = await process(*train, crash_at="trainer_after_write_before_ack:2")
    worker = await process(*publish, "0", "30", crash_at="stream_after_publish:5", stdout=asyncio.subprocess.PIPE)
    assert await told(worker) == list(range(16))  # of four games a call, as many as its queue holds
    assert worker.returncode == -signal.SIGKILL
    assert await ends(dying) == -signal.SIGKILL
    (tmp_path / "ready.json").unlink(missing_ok=True)

    # The worker goes on where it was not told, so games 16 to 19 come twice; Redis dies under it and comes back.
    trainer = await process(*train)
    worker = await process(*publish, "16", "303", stdout=asyncio.subprocess.PIPE)
    await worker.stdout.readline()
    redis.kill()
    redis.start()
    await told(worker)
    assert worker.returncode == 0

    async def is_drained() -> bool:
        assert trainer.returncode is None
        return announced(tmp_path / "ready.json") is not None and (await stream.stats()).length == 0

    await until(is_drained)
    await until(lambda: len(list((tmp_path / "models" / GAME).glob("[0-9]*"))) >= 1)
    trainer.send_signal(signal.SIGTERM)
    assert await ends(trainer) == 0
    assert (await stream.stats()).dead == 0
    await stream.aclose()

    counted = stored(tmp_path / "replay")
    assert sorted(counted) == [record(number)[0] for number in range(319)]
    newest = max((tmp_path / "replay" / "checkpoints").glob("[0-9]*/checkpoint.json"))
    learnt = json.loads(newest.read_bytes())
    assert learnt["learner"]["step"] > 0
    window = SampleWindow(make(GAME).spec(), TrainSettings())
    with closing(Replay.open(GameLog.open(tmp_path / "replay", writer=True), window)) as replay:
        assert replay.window.total == sum(len(replay.read(record(number)[1])) for number in range(319))


async def test_p2_a_game_is_acknowledged_only_when_it_is_on_disk(tmp_path, make_redis_server):
    redis = make_redis_server()
    redis.start()
    stream = open_stream(redis.url, name="games")
    async with Proxy(to_socket(redis.socket)) as proxy:
        url = f"redis://{proxy.address}/0"
        intake = [str(FOLDER / "intake_process.py"), url, str(tmp_path / "replay")]
        sent = [record(number) for number in range(12)]
        for uid, payload in sent:
            await stream.publish(uid, payload)
        uids = {uid for uid, _ in sent}
        for point in ("trainer_before_write", "game_log_after_write_before_sync", "stream_after_acknowledge"):
            assert await ends(await process(*intake, crash_at=point)) == -signal.SIGKILL
            await check_acknowledged_games_are_stored(stream, tmp_path / "replay", uids)
        assert (await stream.stats()).length < len(uids)  # the last one had acknowledged some

        # A connection that is cut while the games are on their way to the disk: they come again and count once.
        running = await process(*intake)
        await until(lambda: proxy.accepted >= 5 or running.returncode is not None)
        proxy.cut()
        proxy.heal()
        assert await ends(running) == 0
        await check_acknowledged_games_are_stored(stream, tmp_path / "replay", uids)
    assert (await stream.stats()).length == 0
    assert sorted(stored(tmp_path / "replay")) == sorted(uids)
    await stream.aclose()


async def check_acknowledged_games_are_stored(stream, directory, uids) -> None:
    """A game that Redis holds no more was acknowledged. What is stored is read as after a crash of the machine."""
    waiting = {raw[b"uid"].decode() for _, raw in await stream._client.xrange("games")}
    assert uids - waiting <= set(stored(directory))


async def test_p3_a_bad_record_never_reaches_the_replay_store_and_is_countable(tmp_path, make_redis_server):
    redis = make_redis_server()
    redis.start()
    stream = open_stream(redis.url, name="games")
    rng = np.random.default_rng(3)
    good = [record(number) for number in range(20)]
    bad = [
        *((f"{900 + i:032x}", rng.bytes(int(rng.integers(0, 400)))) for i in range(60)),
        *((f"{1000 + i:032x}", record(i)[1]) for i in range(20)),  # under another's uid
        *(record(2000 + i, scores=(0.5, -0.5)) for i in range(20)),
        *(record(3000 + i, moves=np.array([0, 0], np.int32), searched=()) for i in range(20)),
        *(record(4000 + i, of=make("connect_four")) for i in range(20)),
        *(record(5000 + i, version=4) for i in range(20)),
        *((uid, record(6000 + i, uid=uid)[1]) for i, (uid, _) in enumerate(good)),  # another game under a known uid
        *((uid, payload[: len(payload) // 2]) for uid, payload in (record(7000 + i) for i in range(20))),
    ]
    flood = [*good, *bad, *good]
    order = [*range(len(good)), *(len(good) + rng.permutation(len(flood) - len(good)))]
    for index in order:
        await stream.publish(*flood[index])

    def refused() -> float:
        return sum(s.value for m in metrics.RECORDS_REJECTED.collect() for s in m.samples if s.name.endswith("_total"))

    before, log = refused(), GameLog.open(tmp_path / "replay", writer=True)
    replay = Replay.open(log, SampleWindow(make(GAME).spec(), TrainSettings()))
    with ThreadPoolExecutor(1) as executor:
        check = RecordCheck(RecordReader(make(GAME), replay.window.read), replay, lambda: 3)
        intake = Intake(
            stream,
            replay,
            check,
            executor=executor,
            consumer="trainer",
            limit=64,
            wait_s=0.2,
            rng=random.Random(0),
            on_samples=lambda: None,
        )
        while (await stream.stats()).length:
            await intake.take(await intake._consume())
    assert [(logged.uid, logged.payload) for logged in replay.log.scan()] == good
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (0, len(bad))
    assert refused() - before == len(bad)
    letters = await stream.dead(limit=len(bad))
    assert {letter.reason.partition(":")[0] for letter in letters} >= {"format", "result", "moves", "other_game", "conflict"}
    replay.close()
    await stream.aclose()
