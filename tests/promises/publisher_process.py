"""A worker's publisher as a process: python publisher_process.py STREAM_URL FIRST COUNT. Prints each game the stream took."""

from __future__ import annotations

import asyncio
import random
import sys

from promise_tools import record

import games
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.publisher import Publisher
from zerofleet.service import logs
from zerofleet.storage.streams import open_stream

assert games


def note(number: int) -> None:
    print(number, flush=True)


async def main(url: str, first: int, count: int) -> None:
    stream = open_stream(url, name="games")
    publisher = Publisher(stream, "tic_tac_toe", capacity=4, rng=random.Random(first))
    running = asyncio.create_task(publisher.run())
    for number in range(first, first + count):
        uid, payload = record(number)
        publisher.hand_over(FinishedGame(uid, payload, when_settled=lambda number=number: note(number)))
        await publisher.room()
    await publisher.flush()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await stream.aclose()


if __name__ == "__main__":
    logs.configure("warning", "json", "publisher")  # on standard error
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
