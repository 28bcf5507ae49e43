"""Addresses of streams, and SQLite files that are not streams."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zerofleet.errors import ConfigurationError, RunDirectoryError, Unavailable
from zerofleet.storage.streams import GameStream, RedisStream, SqliteStream, open_stream
from zerofleet.storage.streams.sqlite_file import SCHEMA


async def uids(stream: GameStream) -> list[str]:
    return [delivery.uid for delivery in await stream.consume(consumer="a", limit=10, block_s=0.0)]


async def test_a_stream_without_publish_all_fails_rather_than_lose_games() -> None:
    class Own(GameStream):
        """Stream of a program that knows `publish` alone."""

    with pytest.raises(NotImplementedError, match="Own has no publish_all"):
        await Own().publish("game-0", b"x")


async def test_sqlite_address_names_a_file_and_streams_in_it_are_separate(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.db'}"
    games, others = open_stream(url, name="games"), open_stream(url, name="others")
    await games.publish("game-0", b"x")
    assert await uids(others) == []
    assert (await others.stats()).length == 0
    delivery = (await games.consume(consumer="a", limit=1, block_s=0.0))[0]
    await others.acknowledge([delivery.entry_id])
    await others.dead_letter(delivery, reason="not theirs")
    assert (await games.stats()).length == 1
    await games.aclose()
    await others.aclose()
    assert (tmp_path / "games.db").is_file()


class Contended(sqlite3.Connection):
    """Refuses to switch to write-ahead logging twice, as SQLite does while another connection is at it."""

    refusals = 2

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if "journal_mode" in sql and self.refusals:
            self.refusals -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(sql, *arguments)


async def test_opening_waits_for_another_process_that_prepares_the_sqlite_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Contended))
    stream = open_stream(f"sqlite:///{tmp_path / 'games.db'}", name="games")
    await stream.publish("game-0", b"x")
    assert await uids(stream) == ["game-0"]
    await stream.aclose()


async def test_sqlite_address_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stream = open_stream("sqlite:///games.db?high_water=5&idle_s=0.5", name="games")
    assert isinstance(stream, SqliteStream)
    await stream.publish("game-0", b"x")
    await stream.aclose()
    assert (tmp_path / "games.db").is_file()


async def test_redis_addresses_connect_to_nothing_yet() -> None:
    for url in ("redis://host:6379/1", "rediss://user:secret@host/0", "unix:///run/redis.sock?db=2"):
        stream = open_stream(url, name="games")
        assert isinstance(stream, RedisStream)
        await stream.aclose()


@pytest.mark.parametrize(
    ("url", "name", "text"),
    [
        ("", "games", "want sqlite:///FILE"),
        ("games.db", "games", "want sqlite:///FILE"),
        ("sqlite:///", "games", "want sqlite:///FILE"),
        ("sqlite://games.db", "games", "want sqlite:///FILE"),
        ("kafka://host", "games", "begins with 'kafka'"),
        ("redis://host/0?colour=red", "games", "colour"),
        ("sqlite:///games.db?high_water=none", "games", "high_water"),
        ("sqlite:///games.db?high_water=0", "games", "high_water"),
        ("redis://host/0?tls_ca_file=/etc/ca.pem", "games", "not rediss://"),
        ("rediss://host/0?tls_ca_file=/missing/ca.pem", "games", "no such file"),
        ("redis://host/0?password_file=/missing/password", "games", "password file /missing/password"),
        ("redis://host:port/0", "games", "stream address redis://host:port"),
        ("redis://host/0", "", "stream name"),
        ("redis://host/0", "games:dead", "stream name"),
        ("redis://host/0", "{games}", "stream name"),
    ],
)
def test_a_bad_address_is_named_in_the_error(url: str, name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        open_stream(url, name=name)


def test_secret_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_stream("redis://user:sesame@host:port/0", name="games")
    assert "sesame" not in str(refused.value)


async def test_a_file_that_is_not_a_database_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    path.write_text("a letter, not a database; " * 100)
    stream = SqliteStream(path, name="games")
    with pytest.raises(RunDirectoryError, match="is not a game stream"):
        await stream.publish("game-0", b"x")
    await stream.aclose()
    assert path.read_text().startswith("a letter")


async def test_a_database_with_a_damaged_name_of_a_table_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    stream = SqliteStream(path, name="games")
    await stream.publish("game-0", b"x")
    await stream.aclose()
    path.write_bytes(path.read_bytes().replace(b"entries", b"entr\xa8es").replace(b"CREATE TABLE", b"CREATE \xa8ABLE"))
    stream = SqliteStream(path, name="games")
    with pytest.raises(RunDirectoryError, match="is not a game stream or is damaged"):
        await stream.publish("game-1", b"x")
    await stream.aclose()


@pytest.mark.parametrize("statement", ["CREATE TABLE songs (title TEXT)", "PRAGMA user_version = 7"])
async def test_a_foreign_database_or_version_is_named_in_the_error(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "games.db"
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()
    stream = SqliteStream(path, name="games")
    with pytest.raises(RunDirectoryError, match="not a game stream; this program reads 1"):
        await stream.stats()
    await stream.aclose()


async def test_a_missing_directory_is_named_in_the_error(tmp_path: Path) -> None:
    stream = SqliteStream(tmp_path / "missing" / "games.db", name="games")
    with pytest.raises(Unavailable, match="unable to open"):
        await stream.stats()
    await stream.aclose()


async def test_a_sqlite_file_with_untruncated_dead_letters_is_still_usable(tmp_path: Path) -> None:
    path = tmp_path / "games.db"
    column = next(line for line in SCHEMA.splitlines() if "size_bytes" in line)
    old = sqlite3.connect(path)
    old.executescript(SCHEMA.replace(f",\n{column}", "") + "PRAGMA user_version = 1;")
    bury = "INSERT INTO dead_letters (stream, uid, payload, reason, deliveries) VALUES ('games', ?, x'0000', 'moves', 1)"
    old.execute(bury, ["old"])
    old.commit()
    stream = SqliteStream(path, name="games")
    await stream.publish("new", b"x")
    await stream.dead_letter((await stream.consume(consumer="a", limit=1, block_s=0.0))[0], reason="moves")
    old.execute(bury, ["late"])  # by a program of that time that has the file open
    old.commit()
    assert [(letter.uid, letter.size_bytes) for letter in await stream.dead()] == [("late", 2), ("new", 1), ("old", 2)]
    await stream.aclose()
    old.close()


async def test_a_full_disk_is_reported_and_the_stream_recovers(tmp_path: Path) -> None:
    stream = SqliteStream(tmp_path / "games.db", name="games")
    await stream.publish("game-0", b"x")
    await stream._run(lambda: stream._database().execute("PRAGMA max_page_count = 20"))
    with pytest.raises(Unavailable, match="full"):
        await stream.publish("game-1", bytes(500_000))
    assert await uids(stream) == ["game-0"]
    await stream._run(lambda: stream._database().execute("PRAGMA max_page_count = 100000"))
    await stream.publish("game-1", bytes(500_000))
    assert await uids(stream) == ["game-1"]
    await stream.aclose()


@pytest.mark.parametrize("url", ["redis://:secret@[::1", "redis://:secret@[::g]:1/0", "redis://:secret@host:99999"])
def test_an_address_that_is_not_a_url_is_refused_without_its_password(url):
    with pytest.raises(ConfigurationError, match="stream address") as refused:
        open_stream(url, name="games")
    assert "secret" not in str(refused.value)
