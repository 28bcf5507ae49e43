"""Entries of an SQLite stream are counted as they come and go, not when a game is published."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from zerofleet.storage.streams import GameStream, open_stream
from zerofleet.storage.streams.sqlite_file import SCHEMA, SCHEMA_VERSION

COUNTED_EVERY = 10  # instructions of SQLite's virtual machine between two calls of the counter


def stream_in(folder: Path, *, high_water: int = 10_000) -> GameStream:
    return open_stream(f"sqlite:///{folder / 'games.db'}?high_water={high_water}", name="games")


def counted(folder: Path) -> tuple[int, int]:
    """Return the stored count of a stream, and the number of its entries."""
    with sqlite3.connect(folder / "games.db") as file:
        (stored,) = file.execute("SELECT entries FROM lengths WHERE stream = 'games'").fetchone()
        (entries,) = file.execute("SELECT count(*) FROM entries WHERE stream = 'games'").fetchone()
    return stored, entries


async def fill(stream: GameStream, *numbers: int) -> None:
    for number in numbers:
        await stream.publish(f"game-{number}", bytes(2_000))


async def instructions_to_publish(folder: Path, waiting: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many instructions SQLite executes for a publication while `waiting` games wait."""
    calls: list[int] = []

    class Counting(sqlite3.Connection):
        def count(self) -> None:
            calls.append(1)

        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if "INSERT INTO entries" in sql:
                calls.clear()
            return super().execute(sql, *arguments)

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: Counting = real(*given, **named, factory=Counting)
        connection.set_progress_handler(connection.count, COUNTED_EVERY)
        return connection

    real: Any = sqlite3.connect
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect)
        stream = stream_in(folder)
        await fill(stream, *range(waiting + 1))
        await stream.aclose()
    return len(calls)


async def test_a_publication_costs_the_same_however_many_games_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = await instructions_to_publish(tmp_path, 2, monkeypatch)
    many = await instructions_to_publish(tmp_path, 400, monkeypatch)
    assert 0 < many <= few + 2


async def test_a_file_of_a_release_that_did_not_count_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "games.db") as old:
        old.executescript(SCHEMA)
        rows = [(name, f"game-{number}", b"x", 1.0) for name in ("games", "others") for number in range(3)]
        old.executemany("INSERT INTO entries (stream, uid, payload, published_at_s) VALUES (?, ?, ?, ?)", rows)
        old.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    stream = stream_in(tmp_path)
    assert (await stream.stats()).length == 3
    assert counted(tmp_path) == (3, 3)
    await stream.aclose()


async def test_games_that_another_program_adds_or_removes_are_counted(tmp_path: Path) -> None:
    stream = stream_in(tmp_path)
    await fill(stream, 0, 1, 2)
    with sqlite3.connect(tmp_path / "games.db") as other:
        other.execute("DELETE FROM entries WHERE uid = 'game-1'")
        other.execute("INSERT INTO entries (stream, uid, payload, published_at_s) VALUES ('games', 'game-3', x'00', 1.0)")
        other.execute("DELETE FROM entries WHERE uid IN ('game-0', 'game-2')")
    assert (await stream.stats()).length == 1
    assert counted(tmp_path) == (1, 1)
    await stream.aclose()


async def test_a_full_stream_takes_a_game_again_after_an_acknowledgement(tmp_path: Path) -> None:
    stream = stream_in(tmp_path, high_water=2)
    await fill(stream, 0, 1)
    waiting = asyncio.ensure_future(fill(stream, 2))
    first, _ = await stream.consume(consumer="a", limit=2, block_s=0.0)
    assert not waiting.done()
    assert counted(tmp_path) == (2, 2)
    await stream.acknowledge([first.entry_id])
    async with asyncio.timeout(30):
        await waiting
    assert counted(tmp_path) == (2, 2)
    await stream.aclose()


async def test_the_count_survives_delivery_acknowledgement_and_dead_letters(tmp_path: Path) -> None:
    stream = stream_in(tmp_path)
    await fill(stream, *range(6))
    first, second, *_ = await stream.consume(consumer="a", limit=4, block_s=0.0)
    await stream.acknowledge([first.entry_id])
    await stream.acknowledge([first.entry_id])  # again, as after a lost reply
    await stream.dead_letter(second, reason="broken")
    found = await stream.stats()
    assert (found.length, found.pending, found.dead) == (4, 2, 1)
    assert counted(tmp_path) == (4, 4)
    await stream.aclose()
    again = stream_in(tmp_path)
    assert (await again.stats()).length == 4
    await again.aclose()
