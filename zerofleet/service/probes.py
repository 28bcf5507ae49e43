"""The HTTP port of a service: /metrics for Prometheus, /livez and /readyz for whoever restarts and routes.

`/livez` answers as long as the event loop turns. `/readyz` is 200 only while the service takes work. The server speaks
as much HTTP as these three need: one GET a connection, a short request, a short time. Whoever dawdles makes room for
whoever comes: with `MAX_CONNECTIONS` open, a new one takes the place of the oldest. A path may ask for a bearer token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import structlog

from zerofleet.errors import ConfigurationError

__all__ = ["Answer", "ProbeServer"]

MAX_REQUEST_BYTES = 8192
MAX_CONNECTIONS = 64  # a scrape and a probe take milliseconds: so many at once are only ever held open on purpose
REQUEST_TIMEOUT_S = 5.0  # from the connection to the last byte of the answer
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of one path."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class _Request(NamedTuple):
    """What is read of a request; empty when it is too long, cut short or no HTTP."""

    method: str = ""
    path: str = ""
    token: bytes = b""  # of `Authorization: Bearer ...`


class ProbeServer:
    """Serves the given paths over HTTP until closed."""

    def __init__(self, paths: Mapping[str, Callable[[], Answer]], *, tokens: Mapping[str, str | None] | None = None) -> None:
        """`tokens`: the bearer token that a path asks for; paths without one, or with None, are open."""
        self._paths = dict(paths)
        self._tokens = {path: _digest(token.encode()) for path, token in (tokens or {}).items() if token}
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}  # oldest first

    async def start(self, host: str, port: int) -> Self:
        """Listen; port 0 takes a free one, see `port`. Raises `ConfigurationError` when the port is taken.

        Cancellation: nothing listens.
        """
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            text = f"metrics address {host}:{port} cannot be used: {error.strerror}; set metrics_port to a free one, or 0"
            raise ConfigurationError(text) from error
        return self

    @property
    def port(self) -> int:
        """The port it listens on; 0 before `start`."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server else 0

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._open)

    async def aclose(self) -> None:
        """Stop listening and cut off who is connected. Cancellation: it has stopped."""
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self._drop(next(iter(self._open)))
        self._open[writer] = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = self._answer(await _read(reader))
                writer.write(_response(answer))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError):
            pass  # the client went away or dawdles; nobody waits for an answer
        finally:
            self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        """End a connection now, whatever it has still to send."""
        self._open.pop(writer, None)
        writer.transport.abort()

    def _answer(self, request: _Request) -> Answer:
        if not request.path.startswith("/"):
            return Answer(400, b"malformed request\n")
        if request.method != "GET":
            return Answer(405, b"only GET is served\n")
        handler = self._paths.get(request.path)
        if handler is None:
            return Answer(404, f"served paths: {', '.join(self._paths)}\n".encode())
        wanted = self._tokens.get(request.path)
        if wanted is not None and not hmac.compare_digest(wanted, _digest(request.token)):
            return Answer(401, b"this path needs a bearer token\n")
        try:
            return handler()
        except Exception as error:  # a gauge that cannot be read must not show its traceback, nor end the port
            log.error("probe.failed", path=request.path, exc_info=error)
            return Answer(500, b"internal error; the service's log has the details\n")


async def _read(reader: asyncio.StreamReader) -> _Request:
    """Read a request up to the blank line; whatever follows it is not read."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        return _Request()
    first, *headers = head.decode("latin-1").split("\r\n")
    method, target, *_ = [*first.split(), "", ""]
    token = ""
    for header in headers:
        name, _, value = header.partition(":")
        scheme, _, credentials = value.strip().partition(" ")
        if name.lower() == "authorization" and scheme.lower() == "bearer":
            token = credentials.strip()
    return _Request(method, target.partition("?")[0], token.encode())


def _response(answer: Answer) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        + ("WWW-Authenticate: Bearer\r\n" if answer.status == 401 else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + answer.body


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
