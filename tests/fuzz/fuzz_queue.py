"""Target of the game stream: published payloads, which the trainer's intake checks, stores or refuses, and settles."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path

from fuzz_files import old
from fuzz_messages import mutate_message
from fuzz_models import MODEL
from fuzz_targets import ACCEPTED, Fault, Outcome, Target
from google.protobuf.message import DecodeError

from games.core import make
from trainer.intake import Intake
from trainer.readers.base import RecordReader
from trainer.record_check import CheckedRecords, RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.contracts.wire.records_pb2 import GameRecord
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import MemoryStream

__all__ = ["queue_target"]

_NEWEST = 9
"""Highest published version: that of the seed."""
_WINDOW = 10_000


@asynccontextmanager
async def queue_target(root: Path) -> AsyncIterator[Target]:
    """Open an intake with a stream in memory and a log in `root`, and return its target.

    Cancellation: log and thread are closed.
    """
    game, stream = make(MODEL), MemoryStream()
    window = SampleWindow(game.spec(), TrainSettings(window_min=_WINDOW, window_max=_WINDOW))
    with (
        closing(Replay.open(GameLog.open(root / "replay", writer=True), window)) as replay,
        ThreadPoolExecutor(1, "intake") as executor,
    ):
        intake = Intake(
            stream, replay, RecordCheck(RecordReader(game, replay.window.read), replay, lambda: _NEWEST),
            executor=executor, consumer="trainer", limit=16, wait_s=0.01, rng=random.Random(1), on_samples=lambda: None,
        )  # fmt: skip

        async def take(uid: str, payload: bytes) -> CheckedRecords:
            await stream.publish(uid, payload)
            checked = await intake.take(await stream.consume(consumer="trainer", limit=16, block_s=0.0))
            if (left := (await stream.stats()).length) or len(checked.settled) + len(checked.refused) != 1:
                raise Fault(f"the game is not settled: {left} are left, {checked.settled} settled")
            return checked

        async def run(data: bytes) -> Outcome:
            """Publish a payload twice, below a new uid, so that it is no copy of an earlier input."""
            uid, payload = _named(data)
            before = len(replay.log)
            checked, repeated = await take(uid, payload), await take(uid, payload)
            if len(replay.log) - before != len(checked.accepted) or repeated.accepted:
                raise Fault(f"{len(checked.accepted)} accepted, {len(repeated.accepted)} again, {len(replay.log)} in the log")
            for refusal in checked.refused:
                return Outcome.refused(refusal.reason, refusal.text)
            return Outcome(ACCEPTED)

        yield Target("queue payload", [old(f"records/{MODEL}.pb")], run, _mutate)


def _mutate(rng: random.Random, data: bytes) -> bytes:
    return mutate_message(rng, data, GameRecord)


_CALLS = iter(range(1 << 60))


def _named(data: bytes) -> tuple[str, bytes]:
    """Return a uid that no input had, and the payload with it; bytes that are no record stay as they are."""
    uid = hashlib.blake2b(b"%d" % next(_CALLS), digest_size=16).hexdigest()
    try:
        record = GameRecord.FromString(data)
    except DecodeError:
        return uid, data
    record.uid = uid
    return uid, record.SerializeToString()
