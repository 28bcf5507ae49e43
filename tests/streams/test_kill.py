"""SIGKILL of publishers and consumers between any two steps: every published game is stored by somebody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.streams import open_stream

PUBLISHER = """
import asyncio, sys
from zerofleet.storage.streams import open_stream

async def main():
    stream = open_stream(sys.argv[1], name="games")
    for number in range(int(sys.argv[2]), int(sys.argv[2]) + 10):
        await stream.publish(f"game-{number}", f"payload {number}".encode())
        print(number, flush=True)
    await stream.aclose()

asyncio.run(main())
"""

CONSUMER = """
import asyncio, sys
from zerofleet.storage.streams import open_stream

async def main():
    stream = open_stream(sys.argv[1], name="games")
    store = open(sys.argv[2], "a")
    while deliveries := await stream.consume(consumer="trainer-0", limit=3, block_s=0.2):
        for delivery in deliveries:
            if delivery.uid.endswith("5"):
                await stream.dead_letter(delivery, reason="moves")
                continue
            store.write(delivery.uid + "\\n")
            store.flush()
        await stream.acknowledge([delivery.entry_id for delivery in deliveries])
    await stream.aclose()

asyncio.run(main())
"""

PUBLISHER_POINTS = ["stream_before_publish:4", "stream_after_publish:4"]
CONSUMER_POINTS = [
    "stream_after_claim:2",
    "stream_before_acknowledge:2",
    "stream_after_acknowledge:2",
    "stream_between_bury_and_delete",
]


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'games.db'}"
    make: Callable[[], object] = request.getfixturevalue("make_redis_server")
    server = make()
    server.start()  # type: ignore[attr-defined]
    return str(server.url)  # type: ignore[attr-defined]


def run(script: str, *arguments: str, crash_at: str = "") -> tuple[int, list[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, VARIABLE: crash_at},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("point", PUBLISHER_POINTS)
def test_a_killed_publisher_has_published_every_confirmed_game(url: str, tmp_path: Path, point: str) -> None:
    status, told = run(PUBLISHER, url, "0", crash_at=point)
    assert status == -signal.SIGKILL
    assert told == ["0", "1", "2"]
    run(PUBLISHER, url, "3")  # again from the one that was not acknowledged to it
    run(CONSUMER, url, str(tmp_path / "store"))
    stored = (tmp_path / "store").read_text().split()
    assert set(stored) == {f"game-{number}" for number in range(13) if number != 5}
    copies = 1 if point.startswith("stream_after") else 0
    assert len(stored) == 12 + copies


@pytest.mark.slow
@pytest.mark.parametrize("point", CONSUMER_POINTS)
async def test_killed_consumer_loses_nothing(url: str, tmp_path: Path, point: str) -> None:
    run(PUBLISHER, url, "0")
    status, _ = run(CONSUMER, url, str(tmp_path / "store"), crash_at=point)
    if "bury" in point and url.startswith("unix"):
        assert status == 0  # one script on the server: there is no moment between
    else:
        assert status == -signal.SIGKILL
        status, _ = run(CONSUMER, url, str(tmp_path / "store"))
        assert status == 0
    stored = (tmp_path / "store").read_text().split()
    assert set(stored) == {f"game-{number}" for number in range(10) if number != 5}
    stream = open_stream(url, name="games")
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (0, 1)
    await stream.aclose()


@pytest.mark.slow
async def test_many_processes_publish_at_once(url: str) -> None:
    publishers = [
        subprocess.Popen([sys.executable, "-c", PUBLISHER, url, str(first)], stdout=subprocess.DEVNULL)  # noqa: ASYNC220
        for first in (0, 10, 20, 30)
    ]
    stream = open_stream(url, name="games")
    got: list[str] = []
    while len(got) < 40 and (deliveries := await stream.consume(consumer="trainer-0", limit=7, block_s=60.0)):
        got += [delivery.uid for delivery in deliveries]
        await stream.acknowledge([delivery.entry_id for delivery in deliveries])
    assert sorted(got) == sorted(f"game-{number}" for number in range(40))
    assert [publisher.wait() for publisher in publishers] == [0] * 4
    await stream.aclose()
