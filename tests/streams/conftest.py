"""Streams of every kind to test: in memory, in an SQLite file, and in each server of Redis' protocol that is here."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
import redis.asyncio

from zerofleet.storage.streams import GameStream, MemoryStream, RedisStream, SqliteStream, StreamSettings

sys.path.insert(0, str(Path(__file__).parent))

import redis_programs

_names = itertools.count()


class RedisServer:
    """A real server on a unix socket, with its data in a directory of its own; `kind`: redis, valkey or the first."""

    def __init__(self, directory: Path, *options: str, kind: str = "") -> None:
        self.socket = directory / "redis.sock"
        self._command = [
            redis_programs.program(kind).path, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(directory),
            "--save", "", "--appendonly", "yes", "--appendfsync", "always", *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        self._process = redis_programs.start(self._command)

    def kill(self) -> None:
        """SIGKILL, as a crash does it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def client(self) -> redis.asyncio.Redis:
        return redis.asyncio.Redis(unix_socket_path=str(self.socket), protocol=2)


@pytest.fixture(scope="session")
def short_directory() -> Iterator[Callable[[], Path]]:
    """Makes directories whose paths are short enough for a unix socket."""
    with ExitStack() as stack:
        yield lambda: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zf-")))


@pytest.fixture(scope="session")
def redis_server(short_directory: Callable[[], Path]) -> Iterator[RedisServer]:
    """One server for all tests that do not harm it."""
    server = RedisServer(short_directory(), "--appendfsync", "no")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def valkey_server(short_directory: Callable[[], Path]) -> Iterator[RedisServer]:
    """As `redis_server`, of Valkey."""
    server = RedisServer(short_directory(), "--appendfsync", "no", kind="valkey")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def make_redis_server(short_directory: Callable[[], Path]) -> Iterator[Callable[..., RedisServer]]:
    """Makes servers, not started yet, that a test may kill, restart or set up otherwise."""
    made: list[RedisServer] = []

    def make(*options: str) -> RedisServer:
        made.append(RedisServer(short_directory(), *options))
        return made[-1]

    yield make
    for server in made:
        server.kill()


class Backend(Protocol):
    """One stream, as several processes see it."""

    def open(self) -> GameStream:
        """Return another handle to the stream."""
        ...

    async def age(self, seconds: float) -> None:
        """Make what is pending look delivered that much longer ago."""
        ...

    async def close(self) -> None: ...


class MemoryBackend:
    def __init__(self, settings: StreamSettings) -> None:
        self._now_s = 1000.0
        self._first = MemoryStream(settings, clock=lambda: self._now_s)

    def open(self) -> GameStream:
        return self._first.another()

    async def age(self, seconds: float) -> None:
        self._now_s += seconds

    async def close(self) -> None:
        pass


class SqliteBackend:
    def __init__(self, path: Path, settings: StreamSettings, name: str = "games") -> None:
        self._now_s = 1000.0
        self._path, self._settings, self._name = path, settings, name
        self._opened: list[SqliteStream] = []

    def open(self) -> GameStream:
        stream = SqliteStream(self._path, name=self._name, settings=self._settings, clock=lambda: self._now_s)
        self._opened.append(stream)
        return stream

    async def age(self, seconds: float) -> None:
        self._now_s += seconds

    async def close(self) -> None:
        for stream in self._opened:
            await stream.aclose()


class RedisBackend:
    def __init__(self, server: RedisServer, settings: StreamSettings, name: str | None = None) -> None:
        self.name = name or f"games-{next(_names)}"
        self._server, self._settings = server, settings
        self._client = server.client()
        self._opened: list[RedisStream] = []

    def open(self) -> GameStream:
        stream = RedisStream(self._server.url, name=self.name, settings=self._settings)
        self._opened.append(stream)
        return stream

    async def age(self, seconds: float) -> None:
        if not await self._client.exists(self.name) or not await self._client.xinfo_groups(self.name):
            return
        for row in await self._client.xpending_range(self.name, "trainer", "-", "+", 10_000):
            idle_ms = row["time_since_delivered"] + int(1000 * seconds)
            await self._client.xclaim(self.name, "trainer", row["consumer"], 0, [row["message_id"]], idle=idle_ms, justid=True)

    async def close(self) -> None:
        for stream in self._opened:
            await stream.aclose()
        await self._client.delete(self.name, f"{self.name}:dead")
        await self._client.aclose()


MakeBackend = Callable[..., Backend]


@pytest.fixture(params=["memory", "sqlite", *redis_programs.kinds()])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_backend(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> MakeBackend:
    """Makes a fresh, empty stream of the kind under test; keywords are `StreamSettings`."""

    def make(**settings: object) -> Backend:
        values = StreamSettings.model_validate({"poll_s": 0.005, "idle_s": 100.0, **settings})
        if kind == "memory":
            return MemoryBackend(values)
        if kind == "sqlite":
            return SqliteBackend(tmp_path / f"{next(_names)}.db", values)
        return RedisBackend(request.getfixturevalue(f"{kind}_server"), values)

    return make


@pytest.fixture
async def make_backend(new_backend: MakeBackend) -> AsyncIterator[MakeBackend]:
    """As `new_backend`; what it made is closed after the test."""
    made: list[Backend] = []

    def make(**settings: object) -> Backend:
        made.append(new_backend(**settings))
        return made[-1]

    yield make
    async with asyncio.timeout(60):
        for backend in made:
            await backend.close()
