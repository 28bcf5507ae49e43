"""Connections to Redis: address, password from a file, TLS. The stream retries, the client does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from redis.asyncio import Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

from zerofleet.errors import ConfigurationError
from zerofleet.storage.streams.base import StreamSettings

__all__ = ["connect", "heeding_cancellation", "shown_address"]

Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 5.0
HEALTH_CHECK_S = 30


def shown_address(url: str) -> str:
    """Return the address for logs: without user and password."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def connect(url: str, settings: StreamSettings, *, read_timeout_s: float) -> Redis:
    """Return a client that connects at its first command. Raises `ConfigurationError` for an unusable address or file."""
    options: dict[str, Any] = {}
    if settings.password_file is not None:
        options["credential_provider"] = _PasswordFile(urlsplit(url).username, settings.password_file)
        parts = urlsplit(url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    for option, file in (
        ("ssl_ca_certs", settings.tls_ca_file),
        ("ssl_certfile", settings.tls_certificate_file),
        ("ssl_keyfile", settings.tls_key_file),
    ):
        if file is None:
            continue
        if not url.startswith("rediss://"):
            raise ConfigurationError(f"{file} is given for TLS, but the stream address is not rediss://")
        if not file.is_file():
            raise ConfigurationError(f"no such file for TLS: {file}")
        options[option] = str(file)
    try:
        client = Redis.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=read_timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            health_check_interval=HEALTH_CHECK_S,
            **options,
        )
    except ValueError as error:
        raise ConfigurationError(f"stream address {shown_address(url)}: {error}") from error
    if url.startswith("rediss://"):
        client.connection_pool.connection_class = _RenewedConnection
    return client


class _RenewedConnection(SSLConnection):
    """TLS with the files read at every connect: redis-py would use those of the first one until the process ends."""

    async def _connect(self) -> None:
        self.ssl_context.context = None
        await super()._connect()  # type: ignore[no-untyped-call]


class _PasswordFile(CredentialProvider):
    """Credentials with the password read from its file at every connect, so that it can be rotated."""

    def __init__(self, user: str | None, path: Path) -> None:
        self._user = unquote(user) if user else None
        self._path = path
        self._read()

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return (password,) or (user, password)."""
        return (self._read(),) if self._user is None else (self._user, self._read())

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """As `get_credentials`; the file is a few bytes. Cancellation: no effect."""
        return self.get_credentials()

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigurationError(f"password file {self._path}: {error.strerror}") from error
        except UnicodeDecodeError as error:  # its text would show the password
            raise ConfigurationError(f"password file {self._path} is not a text file: {error.reason}") from None


async def heeding_cancellation(call: Callable[[], Awaitable[Result]]) -> Result:
    """Await `call`; raises `CancelledError` even if the client swallowed a cancellation meanwhile.

    redis-py sends with `asyncio.wait_for`, which in Python 3.11 drops a cancellation that arrives as it completes
    (python/cpython#86296). A publisher waiting for space would then wait without end.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0  # above 0 while a cancelled task cleans up
    try:
        return await call()
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
