"""Intake: the order of effects, duplicates, bad records, a stream or a disk that is away."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from types import SimpleNamespace

import numpy as np
import pytest
from structlog.testing import capture_logs

from games.connect_four import ConnectFour
from trainer.intake import Intake
from trainer.readers.base import RecordReader
from trainer.record_check import RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.errors import CorruptModel, PermissionRefused, RunDirectoryError, Unavailable
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import Delivery, MemoryStream, SqliteStream, StreamSettings
from zerofleet.telemetry import metrics

SETTINGS = TrainSettings()


@pytest.fixture
def stream():
    return MemoryStream()


@pytest.fixture
def replay(game, tmp_path):
    opened = Replay.open(GameLog.open(tmp_path / "replay", writer=True), SampleWindow(game.spec(), SETTINGS))
    yield opened
    opened.close()


@pytest.fixture
def intake(game, stream, replay):
    with ThreadPoolExecutor(1, thread_name_prefix="intake") as executor:
        yield Intake(
            stream,
            replay,
            RecordCheck(RecordReader(game, replay.window.read), replay, newest_version=lambda: 3),
            executor=executor,
            consumer="trainer",
            limit=16,
            wait_s=0.01,
            rng=random.Random(0),
            on_samples=lambda: None,
        )


async def take_all(intake, stream):
    return await intake.take(await stream.consume(consumer="trainer", limit=100, block_s=0.01))


async def test_a_good_game_is_stored_drawn_and_acknowledged(intake, stream, replay, record):
    uid, payload = record(1)
    await stream.publish(uid, payload)
    await take_all(intake, stream)
    assert replay.log.find(uid).payload == payload
    assert replay.window.total > 0
    assert (await stream.stats()).length == 0


async def test_a_game_delivered_many_times_is_counted_once(intake, stream, replay, record):
    before = metrics.RECORDS_DUPLICATE._value.get()
    for _ in range(5):
        await stream.publish(*record(1))
    await take_all(intake, stream)
    total = replay.window.total
    for _ in range(4):
        await stream.publish(*record(1))
    await take_all(intake, stream)
    assert len(replay.log) == 1
    assert replay.window.total == total
    assert metrics.RECORDS_DUPLICATE._value.get() - before == 8
    assert (await stream.stats()).length == 0


async def test_a_stored_uid_with_different_content_goes_to_the_dead_letters(intake, stream, replay, record):
    await stream.publish(*record(1))
    await stream.publish(*record(2, uid=record(1)[0]))  # in the same delivery
    await take_all(intake, stream)
    await stream.publish(*record(3, uid=record(1)[0]))  # and later
    await take_all(intake, stream)
    assert [letter.reason.partition(":")[0] for letter in await stream.dead()] == ["conflict", "conflict"]
    assert len(replay.log) == 1


async def test_a_game_that_was_played_again_move_by_move_is_a_duplicate(intake, stream, replay, record):
    uid, payload = record(1)
    again = GameRecord.FromString(payload)
    again.finished_at_ms += 5_000
    await stream.publish(uid, payload)
    await take_all(intake, stream)
    await stream.publish(uid, again.SerializeToString())
    await take_all(intake, stream)
    assert await stream.dead() == []
    assert len(replay.log) == 1


@pytest.fixture
def bad_records(record, connect_four):
    """A record for each reason to refuse one: uid and payload."""
    return {
        "format": ("0" * 32, b"\xff\xff\xff"),
        "uid": ("0" * 32, record(1)[1]),
        "result": record(1, scores=(0.5, -0.5)),
        "moves": record(1, moves=np.array([0, 0], np.int32), searched=()),
        "other_game": record(1, of=connect_four),
        "model_version": record(1, version=4),
    }


@pytest.mark.parametrize("reason", ["format", "uid", "result", "moves", "other_game", "model_version"])
async def test_a_bad_game_is_counted_dead_lettered_and_never_stored(intake, stream, replay, record, bad_records, reason):
    counter = metrics.RECORDS_REJECTED.labels(reason=reason)
    before = counter._value.get()
    await stream.publish(*bad_records[reason])
    await stream.publish(*record(2))
    await take_all(intake, stream)
    (letter,) = await stream.dead()
    assert letter.reason.startswith(f"{reason}: ")
    assert counter._value.get() - before == 1
    assert [logged.uid for logged in replay.log.scan()] == [record(2)[0]]
    assert (await stream.stats()).length == 0


@pytest.mark.parametrize(
    ("reason", "uid", "payload"),
    [("uid", "../../etc/passwd", b""), ("uid", "F" * 32, b""), ("size", "0" * 32, bytes((1 << 20) + 1))],
)
async def test_a_forged_delivery_is_refused(intake, reason, uid, payload):
    checked = intake._check.check([Delivery("1", uid, payload, 1)])
    assert [refusal.reason for refusal in checked.refused] == [reason]


async def test_a_record_of_another_game_does_not_load_the_rules_of_that_game(intake, bad_records, monkeypatch):
    monkeypatch.setattr("trainer.readers.base.validate", lambda record: pytest.fail("would compile the other game's rules"))
    uid, payload = bad_records["other_game"]
    (refused,) = intake._check.check([Delivery("1", uid, payload, 1)]).refused
    assert (refused.reason, "this trainer expects tic_tac_toe" in refused.text) == ("other_game", True)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(28, "No space left on device"), "free space"),
        (OSError(24, "Too many open files"), "raise the hard limit of open files (ulimit -Hn) and restart"),
    ],
)
async def test_games_stay_unacknowledged_while_the_disk_refuses_them(
    intake, stream, replay, record, monkeypatch, error, advice
):
    keep, refusals = replay.keep, iter(range(2))

    def refuse_twice(games):
        if next(refusals, None) is not None:
            raise error
        keep(games)

    monkeypatch.setattr(replay, "keep", refuse_twice)
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)
    await stream.publish(*record(1))
    deliveries = await stream.consume(consumer="trainer", limit=100, block_s=0.01)
    with capture_logs() as lines:
        await intake.take(deliveries)
    assert [line["advice"] for line in lines if line["event"] == "intake.disk_refuses"] == [advice] * 2
    assert len(replay.log) == 1
    assert (await stream.stats()).length == 0


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RunDirectoryError("the file could not be synced")])
async def test_restarts_on_a_full_disk_bury_no_game(intake, stream, replay, record, monkeypatch, error):
    keep, stopping = replay.keep, intake._stopping

    def refuse(games):
        stopping.set()
        raise error

    monkeypatch.setattr(replay, "keep", refuse)
    await stream.publish(*record(1))
    for _ in range(2 * StreamSettings().max_deliveries):
        stopping.clear()
        async with asyncio.timeout(60):  # without a game to refuse, nothing stops the intake
            with suppress(RunDirectoryError):
                await intake.run()
    monkeypatch.setattr(replay, "keep", keep)
    await take_all(intake, stream)
    assert (len(replay.log), await stream.dead()) == (1, [])


async def test_games_held_when_something_else_ends_the_trainer_are_never_poison(intake, stream, replay, record, monkeypatch):
    settle = intake._settle

    async def fail(checked):
        asyncio.current_task().cancel()  # as the task group of a learner that fails does
        await asyncio.Event().wait()

    monkeypatch.setattr(intake, "_settle", fail)
    await stream.publish(*record(1))
    for _ in range(StreamSettings().max_deliveries):
        intake._stream = stream.another()  # as a restart does
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(intake.run())
    monkeypatch.setattr(intake, "_settle", settle)
    await take_all(intake, stream.another())
    assert (len(replay.log), await stream.dead()) == (1, [])


async def test_games_that_outlast_the_grace_time_of_a_stop_count_as_delivered(intake, stream, record, monkeypatch):
    async def hang(deliveries):
        intake._stopping.set()
        asyncio.current_task().cancel()
        await asyncio.Event().wait()

    monkeypatch.setattr(intake, "take", hang)
    await stream.publish(*record(1))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(intake.run())
    (again,) = await stream.another().consume(consumer="trainer", limit=1, block_s=0.0)
    assert again.deliveries == 2


@pytest.mark.parametrize("error", [Unavailable("no version is left"), CorruptModel("not a version"), OSError(5, "I/O error")])
async def test_games_wait_while_the_store_of_models_cannot_be_read(intake, stream, replay, record, monkeypatch, error):
    failures = iter(range(2))

    def newest_version():
        if next(failures, None) is not None:
            raise error
        return 3

    monkeypatch.setattr(intake._check, "_newest_version", newest_version)
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)
    await stream.publish(*record(1))
    await take_all(intake, stream)
    assert (len(replay.log), (await stream.stats()).pending) == (1, 0)


def test_the_store_of_models_is_read_only_for_a_game_of_a_version_above_those_that_are_known(game, replay, record):
    published, stored, asked = 1, 2, []

    def newest_version():
        asked.append(stored)
        return stored

    reader = RecordReader(game, replay.window.read)
    check = RecordCheck(reader, replay, newest_version, published_version=lambda: published)
    reasons = []
    for number, version in enumerate([1, 1, 2, 2, 3, 1]):
        outcome = check.check([Delivery(str(number), *record(number, version=version), 1)])
        reasons.append([refusal.reason for refusal in outcome.refused])
    assert reasons == [[], [], [], [], ["model_version"], []]
    assert len(asked) == 2  # for the first game of version 2, and for that of 3
    published = 3
    assert check.check([Delivery("7", *record(7, version=3), 1)]).refused == []
    assert len(asked) == 2


async def test_a_password_that_changes_during_a_run_delays_the_intake_and_a_wrong_one_ends_it(
    intake, stream, record, monkeypatch
):
    consume, failures = stream.consume, iter([PermissionRefused("wrong password")])

    async def guarded(**arguments):
        if (error := next(failures, None)) is not None:
            raise error
        return await consume(**arguments)

    monkeypatch.setattr(stream, "consume", guarded)
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)
    with pytest.raises(PermissionRefused):
        await intake._consume()
    assert await intake._consume() == []
    failures = iter([PermissionRefused("wrong password")] * 2)
    await stream.publish(*record(1))
    assert len(await intake._consume()) == 1


async def test_a_game_redelivered_after_a_lost_acknowledgement_counts_once(intake, stream, replay, record, monkeypatch):
    acknowledge = stream.acknowledge

    async def away(entry_ids):
        raise Unavailable("the stream is away")

    monkeypatch.setattr(stream, "acknowledge", away)
    await stream.publish(*record(1))
    await take_all(intake, stream)
    monkeypatch.setattr(stream, "acknowledge", acknowledge)
    assert (await stream.stats()).pending == 1
    await stream.publish(*record(1))
    checked = await take_all(intake, stream)
    assert checked.duplicates == 1
    assert len(replay.log) == 1


async def test_a_stop_ends_the_wait_for_an_acknowledgement_that_the_stream_does_not_answer(
    intake, stream, replay, record, monkeypatch
):
    asked = asyncio.Event()

    async def hang(entry_ids):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(stream, "acknowledge", hang)
    monkeypatch.setattr("trainer.intake.LAST_TRY_S", 0.001)
    await stream.publish(*record(1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(intake.run())
        await asked.wait()
        await intake.stop()
    assert (len(replay.log), (await stream.stats()).pending) == (1, 1)


async def test_the_intake_takes_games_until_it_is_stopped(intake, stream, replay, record):
    arrived = asyncio.Event()
    intake._on_samples = arrived.set
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(intake.run())
        await stream.publish(*record(1))
        await arrived.wait()
        await intake.stop()
    assert len(replay.log) == 1
    assert (await stream.stats()).length == 0


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_stop_ends_the_wait_for_games_and_takes_those_that_are_there(intake, replay, record, tmp_path, kind):
    async with aclosing(MemoryStream() if kind == "memory" else SqliteStream(tmp_path / "games.db", name="games")) as stream:
        intake._stream, intake._wait_s = stream, 3600.0
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(intake.run())
            await asyncio.sleep(0)  # the intake waits for games now
            await stream.publish(*record(1))
            await intake.stop()
            await intake.stop()
        assert len(replay.log) == 1
        assert (await stream.stats()).length == 0


async def test_games_stay_in_the_stream_while_the_learner_is_behind(intake, stream, replay, record):
    arrived, stored = asyncio.Event(), []

    def is_behind():
        stored.append(len(replay.log))
        return len(stored) <= 4

    before = metrics.INTAKE_WAIT._value.get()
    intake._on_samples, intake._is_behind = arrived.set, is_behind
    await stream.publish(*record(1))
    with capture_logs() as logged:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(intake.run())
            await arrived.wait()
            await intake.stop()
    assert stored[:5] == [0] * 5
    assert len(replay.log) == 1
    assert metrics.INTAKE_WAIT._value.get() > before
    assert [line["event"] for line in logged].count("intake.learner_behind") == 1


async def test_an_intake_that_waits_for_the_learner_can_be_stopped(intake, stream, replay, record):
    looked = asyncio.Event()
    intake._is_behind = lambda: looked.set() or not intake._stopping.is_set()
    await stream.publish(*record(1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(intake.run())
        await looked.wait()
        await intake.stop()
    assert intake._ended.is_set()


async def test_the_intake_waits_for_an_unavailable_stream(intake, stream, record, monkeypatch):
    consume, failures = stream.consume, iter(range(3))

    async def flaky(**arguments):
        if next(failures, None) is not None:
            raise Unavailable("connection refused")
        return await consume(**arguments)

    monkeypatch.setattr(stream, "consume", flaky)
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)
    await stream.publish(*record(1))
    assert len(await intake._consume()) == 1


CRASHING = """
import asyncio, random, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import games
from games.core import make
from trainer.intake import Intake
from trainer.readers.base import RecordReader
from trainer.record_check import RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import open_stream

async def main(root):
    game, settings = make("tic_tac_toe"), TrainSettings()
    replay = Replay.open(GameLog.open(root / "replay", writer=True), SampleWindow(game.spec(), settings))
    stream = open_stream(f"sqlite:///{root / 'games.db'}", name="games")
    check = RecordCheck(RecordReader(game, replay.window.read), replay, lambda: 1)
    with ThreadPoolExecutor(1) as executor:
        intake = Intake(stream, replay, check, executor=executor, consumer="trainer", limit=2,
                        wait_s=0.2, rng=random.Random(0), on_samples=lambda: None)
        while True:
            deliveries = await intake._consume()
            if not deliveries:
                break
            await intake.take(deliveries)
    replay.close()
    await stream.aclose()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["trainer_before_write", "trainer_after_write_before_ack:2", "trainer_after_ack"])
async def test_a_trainer_killed_at_a_named_point_counts_every_game_once(tmp_path, record, point):
    stream = SqliteStream(tmp_path / "games.db", name="games")
    records = [record(number) for number in range(5)]
    for uid, payload in records:
        await stream.publish(uid, payload)
    command = [sys.executable, "-W", "ignore", "-c", CRASHING, str(tmp_path)]
    environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": point}
    died = await asyncio.to_thread(subprocess.run, command, env=environment, timeout=120, check=False)
    assert died.returncode == -9
    ended = await asyncio.to_thread(subprocess.run, command, timeout=120, check=False)
    assert ended.returncode == 0
    with GameLog.open(tmp_path / "replay", writer=False) as log:
        assert sorted(logged.uid for logged in log.scan()) == sorted(uid for uid, _ in records)
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (0, 0)
    await stream.aclose()


async def test_every_line_about_a_game_names_it(intake, stream, record, bad_records):
    bad_uid, bad = bad_records["moves"]
    good_uid, good = record(2)
    for uid, payload in ((good_uid, good), (good_uid, good), (bad_uid, bad)):
        await stream.publish(uid, payload)
    with capture_logs() as lines:
        await take_all(intake, stream)
    assert [(line["event"], line["game_uid"]) for line in lines if line["event"].startswith("intake.")] == [
        ("intake.duplicate", good_uid),
        ("intake.kept", good_uid),
        ("intake.refused", bad_uid),
        ("intake.dead_letter", bad_uid),
    ]


async def test_a_game_with_other_parameters_is_named_as_on_command_lines(intake, game, monkeypatch):
    other = ConnectFour(encoding=1, rows=4)
    record = encode_record(random_game(game, 1), worker_id="w", uid="0" * 32, finished_at_ms=1)
    monkeypatch.setattr("trainer.readers.base.validate", lambda record: SimpleNamespace(game=other))
    (refused,) = intake._check.check([Delivery("1", "0" * 32, record, 1)]).refused
    assert refused.text == "a game of connect_four rows=4 encoding=naive, this trainer expects tic_tac_toe"
