"""What names a game's trace travels beside the game, and games without it are read as ever."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from structlog.testing import capture_logs

from zerofleet.storage.streams import POISON, GameStream, RedisStream, SqliteStream
from zerofleet.storage.streams.sqlite_file import SCHEMA
from zerofleet.telemetry import tracing


@pytest.fixture
def recording() -> Iterator[None]:
    tracing.install(TracerProvider(shutdown_on_exit=False), 1.0)
    yield
    tracing.install(None, 0.0)


async def take(stream: GameStream) -> dict[str, str]:
    return {d.uid: d.traceparent for d in await stream.consume(consumer="a", limit=100, block_s=0.0)}


async def test_the_span_a_game_was_published_in_arrives_with_it(make_backend: Callable[..., Any], recording: None) -> None:
    backend = make_backend()
    stream, consumer = backend.open(), backend.open()
    with tracing.use(tracing.begin("game.publish")) as span:
        await stream.publish("traced", b"x")
    await stream.publish("plain", b"x")
    assert await take(consumer) == {"traced": tracing.traceparent(span), "plain": ""}
    await backend.age(1_000)
    assert (await take(backend.open()))["traced"] == tracing.traceparent(span)  # also when it is delivered again


@pytest.mark.parametrize("kind", ["sqlite", "redis"])  # the fake logs nothing
async def test_a_game_that_kills_its_consumers_is_named_in_the_log(make_backend: Callable[..., Any], kind: str) -> None:
    backend = make_backend(max_deliveries=1)
    await backend.open().publish("game-7", b"x")
    await take(backend.open())
    await backend.age(1_000)
    with capture_logs() as lines:
        assert await take(backend.open()) == {}
    (line,) = [line for line in lines if line["event"] == "stream.dead_letter"]
    assert (line["game_uid"], line["reason"], line["deliveries"]) == ("game-7", POISON, 1)


async def test_a_redis_entry_with_an_invalid_trace_is_delivered(redis_server: Any) -> None:
    client = redis_server.client()
    await client.xadd("odd", {"uid": "game-0", "payload": b"x", "traceparent": b"\xff00-evil"})
    stream = RedisStream(redis_server.url, name="odd")
    assert await take(stream) == {"game-0": ""}
    await stream.aclose()
    await client.aclose()


async def test_a_sqlite_file_from_before_traces_is_still_usable(tmp_path: Path, recording: None) -> None:
    path = tmp_path / "games.db"
    column = ",\n    traceparent TEXT NOT NULL DEFAULT ''"
    assert column in SCHEMA
    with sqlite3.connect(path) as old:
        old.executescript(SCHEMA.replace(column, "") + "PRAGMA user_version = 1;")
        old.execute("INSERT INTO entries (stream, uid, payload, published_at_s) VALUES ('games', 'old', x'00', 0)")
        old.commit()
        stream = SqliteStream(path, name="games")
        with tracing.use(tracing.begin("game.publish")) as span:
            await stream.publish("new", b"x")
        # A program of that time that has the file open goes on as well.
        old.execute("INSERT INTO entries (stream, uid, payload, published_at_s) VALUES ('games', 'late', x'00', 0)")
        old.commit()
        assert await take(stream) == {"old": "", "new": tracing.traceparent(span), "late": ""}
        await stream.aclose()
    old.close()
