"""A trainer's intake as a process: python intake_process.py STREAM_URL DIRECTORY. Ends when the stream is empty."""

from __future__ import annotations

import asyncio
import random
import sys
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
from zerofleet.service import logs
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import open_stream

assert games


async def main(url: str, directory: Path) -> None:
    game, settings = make("tic_tac_toe"), TrainSettings()
    replay = Replay.open(GameLog.open(directory, writer=True), SampleWindow(game.spec(), settings))
    stream = open_stream(url, name="games")
    with ThreadPoolExecutor(1) as executor:
        intake = Intake(
            stream,
            replay,
            RecordCheck(RecordReader(game, replay.window.read), replay, lambda: 1),
            executor=executor,
            consumer="trainer",
            limit=3,
            wait_s=0.3,
            rng=random.Random(0),
            on_samples=lambda: None,
        )
        while (await stream.stats()).length:
            await intake.take(await intake._consume())
    replay.close()
    await stream.aclose()


if __name__ == "__main__":
    logs.configure("warning", "json", "intake")  # on standard error
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
