"""A trainer's intake in this process, over any stream."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from promise_tools import GAME

from games.core import make
from trainer.intake import Intake
from trainer.readers.base import RecordReader
from trainer.record_check import CheckedRecords, RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import GameStream

NEWEST = 3
"""Newest published version of the model."""


class Taking:
    """An intake and its replay store."""

    def __init__(self, intake: Intake, replay: Replay, stream: GameStream) -> None:
        self.intake, self.replay, self.stream = intake, replay, stream

    async def take(self) -> CheckedRecords:
        """Take the deliveries that wait; there must be one at least."""
        deliveries = await self.stream.consume(consumer="trainer", limit=100, block_s=0.0)
        assert deliveries
        return await self.intake.take(deliveries)

    @property
    def uids(self) -> list[str]:
        """Games in the log."""
        return list(self.replay.log.uids())


@contextmanager
def taking(directory: Path, stream: GameStream) -> Iterator[Taking]:
    """Open the replay store in `directory` and an intake of `stream`, as a trainer's process does at its start."""
    game = make(GAME)
    replay = Replay.open(GameLog.open(directory, writer=True), SampleWindow(game.spec(), TrainSettings()))
    with ThreadPoolExecutor(1) as executor:
        intake = Intake(
            stream,
            replay,
            RecordCheck(RecordReader(game, replay.window.read), replay, lambda: NEWEST),
            executor=executor,
            consumer="trainer",
            limit=100,
            wait_s=0.0,
            rng=random.Random(0),
            on_samples=lambda: None,
        )
        try:
            yield Taking(intake, replay, stream)
        finally:
            replay.close()
