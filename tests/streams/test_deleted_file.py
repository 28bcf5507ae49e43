"""A file of the stream that is deleted or replaced while processes have it open: they notice, and meet in the new one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zerofleet.errors import Unavailable
from zerofleet.storage.streams import SqliteStream


def uid(number: int) -> str:
    return f"{number:032x}"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStream]:
    stream = SqliteStream(path, name="games")
    try:
        yield stream
    finally:
        await stream.aclose()


async def take(stream: SqliteStream) -> list[str]:
    found = await stream.consume(consumer="trainer", limit=100, block_s=0.0)
    await stream.acknowledge([delivery.entry_id for delivery in found])
    return [delivery.uid for delivery in found]


@pytest.mark.parametrize("with_all", [False, True], ids=["file alone", "with its wal and shm"])
async def test_worker_and_trainer_meet_again_after_the_file_was_deleted(tmp_path, with_all):
    path = tmp_path / "games.db"
    async with opened(path) as worker, opened(path) as trainer:
        await worker.publish(uid(1), b"a game")
        assert await take(trainer) == [uid(1)]
        for file in tmp_path.glob("games.db*" if with_all else "games.db"):
            file.unlink()
        with capture_logs() as logs:
            for number in range(2, 30):
                await worker.publish(uid(number), b"a game")
                assert await take(trainer) == [uid(number)]
        assert [entry["path"] for entry in logs if entry["event"] == "stream.file_replaced"] == [str(path)] * 2
        assert (await worker.stats()).length == 0


async def test_a_late_acknowledgement_of_a_deleted_file_removes_no_other_game(tmp_path):
    path = tmp_path / "games.db"
    async with opened(path) as worker, opened(path) as trainer:
        await worker.publish(uid(1), b"a game")
        (delivered,) = await trainer.consume(consumer="trainer", limit=1, block_s=0.0)
        path.unlink()
        await worker.publish(uid(2), b"another game")
        await trainer.acknowledge([delivered.entry_id])
        assert await take(trainer) == [uid(2)]


async def test_a_deleted_directory_is_unavailable_until_it_is_back(tmp_path):
    path = tmp_path / "run" / "games.db"
    path.parent.mkdir()
    async with opened(path) as stream:
        await stream.publish(uid(1), b"a game")
        for file in path.parent.iterdir():
            file.unlink()
        path.parent.rmdir()
        with pytest.raises(Unavailable, match=r"games\.db"):
            await stream.publish(uid(2), b"a game")
        path.parent.mkdir()
        await stream.publish(uid(3), b"a game")
        assert await take(stream) == [uid(3)]


PUBLISH = """
import asyncio, sys
from pathlib import Path
from zerofleet.storage.streams import SqliteStream

async def main():
    stream = SqliteStream(Path(sys.argv[1]), name="games")
    await stream.publish("0" * 31 + "1", b"a game")
    print("published", flush=True)
    sys.stdin.readline()
    await stream.publish("0" * 31 + "2", b"a game")
    await stream.aclose()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_processes_meet_again_after_the_file_was_deleted(tmp_path):
    path = tmp_path / "games.db"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", PUBLISH, str(path), **pipes)
    async with opened(path) as trainer:
        assert await worker.stdout.readline() == b"published\n"
        assert await take(trainer) == [uid(1)]
        path.unlink()
        await trainer.stats()
        await worker.communicate(b"\n")
        assert worker.returncode == 0
        assert await take(trainer) == [uid(2)]
