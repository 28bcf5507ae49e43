"""Game streams: finished games from the workers to the trainer, delivered at least once.

    stream = open_stream("sqlite:///run/games.db", name="games")
    stream = open_stream("rediss://worker@redis:6379/0?password_file=/run/secrets/redis&high_water=20000", name="games")

`GameStream` in `base` is the contract; one test suite verifies SQLite, Redis and an in-memory fake against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from zerofleet.errors import ConfigurationError
from zerofleet.storage.sqlite_address import addressed_file
from zerofleet.storage.streams.base import (
    DEAD_PAYLOAD_BYTES,
    POISON,
    DeadLetter,
    Delivery,
    GameStream,
    Publication,
    StreamSettings,
    StreamStats,
)
from zerofleet.storage.streams.memory import MemoryStream
from zerofleet.storage.streams.sqlite import SqliteStream

if TYPE_CHECKING:
    from zerofleet.storage.streams.redis import RedisStream

__all__ = [
    "DEAD_PAYLOAD_BYTES",
    "POISON",
    "DeadLetter",
    "Delivery",
    "GameStream",
    "MemoryStream",
    "Publication",
    "RedisStream",
    "SqliteStream",
    "StreamSettings",
    "StreamStats",
    "open_stream",
]

_WANTED = "want sqlite:///FILE, redis://HOST:PORT/DB, rediss://... or unix:///SOCKET"
_REDIS_SCHEMES = ("redis", "rediss", "unix")


def __getattr__(name: str) -> Any:
    """Import `RedisStream` on first use: a service with SQLite does not need the client of Redis, which is slow to import."""
    if name == "RedisStream":
        return _redis_stream()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _redis_stream() -> type[RedisStream]:
    from zerofleet.storage.streams.redis import RedisStream  # noqa: PLC0415

    return RedisStream


def open_stream(url: str, *, name: str) -> GameStream:
    """Return the stream `name` of the store at `url`, whose query may set any field of `StreamSettings`.

    `sqlite:///relative/file.db`, `sqlite:////absolute/file.db`, `redis://`, `rediss://` (TLS) or `unix:///path.sock`
    (Redis on a unix socket; also `?db=1`). In the path of a file `%`, `?` and `#` are written as `%25`, `%3F` and `%23`.
    Connects lazily. Raises `ConfigurationError`.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:  # the address may hold a password
        raise ConfigurationError(f"stream address is not a URL: {error}; {_WANTED}") from None
    if not name or not all(character.isalnum() or character in "._-" for character in name):
        raise ConfigurationError(f"stream name {name!r} must be of letters, digits, '.', '_' and '-'")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = query.pop("db", None) if parts.scheme == "unix" else None
    try:
        settings = StreamSettings.model_validate(query)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        raise ConfigurationError(f"stream address, part after '?': {problems}") from None
    if (path := addressed_file(url)) is not None:
        return SqliteStream(path, name=name, settings=settings)
    address = url.partition("?")[0]
    if parts.scheme in _REDIS_SCHEMES and address != f"{parts.scheme}://":
        return _redis_stream()(address if database is None else f"{address}?db={database}", name=name, settings=settings)
    raise ConfigurationError(f"stream address begins with {parts.scheme or url[:10]!r}; {_WANTED}")
