"""HTTP port of a service: /metrics for Prometheus, /livez and /readyz for orchestrators.

`/livez` returns 200 while the event loop runs, `/readyz` only while the service accepts work. The server implements the
minimum of HTTP: one GET or HEAD per connection, with limits on size and time. Beyond `MAX_CONNECTIONS` the oldest connection of
the network address with most of them is closed, so that slow clients never block new ones, nor a flood those of other
addresses. A path may require a bearer token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import structlog

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.shares import peer_of

__all__ = ["Answer", "Handler", "ProbeServer"]

MAX_REQUEST_BYTES = 8192
MAX_CONNECTIONS = 64  # scrapes and probes take milliseconds: this many are only ever held open on purpose
REQUEST_TIMEOUT_S = 5.0  # from the connection to the last byte of the response
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


Handler = Callable[[], Answer | Awaitable[Answer]]
"""Function of a path; one that waits is cut off with its connection."""


class _Request(NamedTuple):
    """Parsed request; empty if it is too long, truncated or not HTTP."""

    method: str = ""
    path: str = ""
    token: bytes = b""  # of `Authorization: Bearer ...`


class ProbeServer:
    """Serves the given paths over HTTP until closed."""

    def __init__(self, paths: Mapping[str, Handler], *, tokens: Mapping[str, str | None] | None = None) -> None:
        """Create it; `tokens` holds the bearer token of each protected path, others are open."""
        self._paths = dict(paths)
        self._tokens = {path: _digest(token.encode()) for path, token in (tokens or {}).items() if token}
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, str | None] = {}  # address of each, oldest first
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, path: str, handler: Handler, *, token: str | None = None) -> None:
        """Serve a further path, with its bearer token where it is protected."""
        self._paths[path] = handler
        if token:
            self._tokens[path] = _digest(token.encode())

    async def start(self, host: str, port: int) -> Self:
        """Listen; port 0 selects a free one, see `port`. Raises `ConfigurationError` when the port is in use.

        Cancellation: the port is closed.
        """
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            text = f"metrics address {host}:{port} cannot be used: {error.strerror}; set metrics_port to a free one, or 0"
            raise ConfigurationError(text) from error
        return self

    @property
    def port(self) -> int:
        """Port on which it listens; 0 before `start`."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server else 0

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._open)

    async def aclose(self) -> None:
        """Stop listening and abort open connections. Cancellation: it has stopped."""
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in list(self._open):  # of tasks that were cancelled before their first step
                self._drop(writer)
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task of this class: streams of Python 3.11 log the cancellation of theirs as an error."""
        if len(self._open) >= MAX_CONNECTIONS:
            self._drop(self._dispensable())
        self._open[writer] = _address_of(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await _read(reader)
                writer.write(_response(await self._answer(request), with_body=request.method != "HEAD"))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError):
            pass  # the client disconnected or is too slow
        finally:
            self._drop(writer)

    def _dispensable(self) -> asyncio.StreamWriter:
        """Return the oldest connection of the address that has most of them."""
        ((greediest, _),) = Counter(self._open.values()).most_common(1)
        return next(writer for writer, address in self._open.items() if address == greediest)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        """Abort a connection, discarding unsent data."""
        self._open.pop(writer, None)
        writer.transport.abort()

    async def _answer(self, request: _Request) -> Answer:
        if not request.path.startswith("/"):
            return Answer(400, b"malformed request\n")
        if request.method not in ("GET", "HEAD"):
            return Answer(405, b"only GET and HEAD are served\n")
        handler = self._paths.get(request.path)
        if handler is None:
            return Answer(404, f"served paths: {', '.join(self._paths)}\n".encode())
        wanted = self._tokens.get(request.path)
        if wanted is not None and not hmac.compare_digest(wanted, _digest(request.token)):
            return Answer(401, b"this path needs a bearer token\n")
        try:
            answer = handler()
            return answer if isinstance(answer, Answer) else await answer
        except Exception as error:  # a failing gauge must neither expose its traceback nor close the port
            log.error("probe.failed", path=request.path, exc_info=error)
            return Answer(500, b"internal error; the service's log has the details\n")


def _address_of(writer: asyncio.StreamWriter) -> str | None:
    """Return the network address of a client, of IPv6 its network; None if it is gone already."""
    peer = writer.get_extra_info("peername")
    if not peer:
        return None
    return peer_of(f"ipv6:[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"ipv4:{peer[0]}:{peer[1]}")


async def _read(reader: asyncio.StreamReader) -> _Request:
    """Read a request up to the blank line; the body is not read."""
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


def _response(answer: Answer, *, with_body: bool) -> bytes:
    """Return the bytes of a response; the answer to HEAD has the length of the body, but no body."""
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        + ("WWW-Authenticate: Bearer\r\n" if answer.status == 401 else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
