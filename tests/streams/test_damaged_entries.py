"""Entries of an SQLite stream with columns of other types, as a damaged file or another program leaves them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zerofleet.storage.streams import SqliteStream

DAMAGES = {
    "a count that is text": "deliveries = 'x'",
    "a count below zero": "deliveries = -1",
    "a uid that is a blob": "uid = x'00ff'",
    "a uid that is no UTF-8": "uid = CAST(x'67ff' AS TEXT)",
    "a uid without characters": "uid = ''",
    "a payload that is text": "payload = 'text'",
}


def change(path: Path, assignment: str, uid: str) -> None:
    """Set columns of the entry of a game."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"UPDATE entries SET {assignment} WHERE uid = ?", (uid,))
    database.close()


@pytest.mark.parametrize("assignment", DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_malformed_entry_is_buried_and_the_others_are_delivered(tmp_path: Path, assignment: str) -> None:
    path = tmp_path / "games.db"
    stream = SqliteStream(path, name="games")
    for number in range(3):
        await stream.publish(f"game-{number}", b"payload")
    change(path, assignment, "game-1")
    with capture_logs() as lines:
        deliveries = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert [delivery.uid for delivery in deliveries] == ["game-0", "game-2"]
    assert [line["reason"] for line in lines] == ["malformed"]
    (letter,) = await stream.dead()
    assert letter.reason == "malformed"
    assert isinstance(letter.uid, str)
    assert isinstance(letter.payload, bytes)
    assert isinstance(letter.deliveries, int)
    stats = await stream.stats()
    assert (stats.length, stats.dead) == (2, 1)
    await stream.aclose()


async def test_a_malformed_trace_or_time_does_not_cost_the_game(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    stream = SqliteStream(path, name="games", clock=lambda: 100.0)
    await stream.publish("game-0", b"payload")
    change(path, "traceparent = 7, published_at_s = 'noon'", "game-0")
    (delivery,) = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert (delivery.uid, delivery.traceparent) == ("game-0", "")
    stats = await stream.stats()
    assert (stats.length, stats.pending, stats.oldest_pending_s) == (1, 1, 0.0)
    await stream.aclose()
