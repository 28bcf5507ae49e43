"""The HTTP port of a service: /metrics for Prometheus, /livez and /readyz for whoever restarts and routes.

`/livez` answers as long as the event loop turns. `/readyz` is 200 only while the service takes work. The server speaks
as much HTTP as these three need: one GET a connection, a short request, a short time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from zerofleet.errors import ConfigurationError

__all__ = ["Answer", "ProbeServer"]

MAX_REQUEST_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of one path."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class ProbeServer:
    """Serves the given paths over HTTP until closed."""

    def __init__(self, paths: Mapping[str, Callable[[], Answer]]) -> None:
        self._paths = dict(paths)
        self._server: asyncio.Server | None = None

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

    async def aclose(self) -> None:
        """Stop listening. Cancellation: it has stopped."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = self._answer(await _request_line(reader))
                writer.write(_response(answer))
                await writer.drain()
        except (TimeoutError, ConnectionError):
            pass  # the client went away or dawdles; nobody waits for an answer
        finally:
            writer.close()

    def _answer(self, request: bytes) -> Answer:
        method, path, *_ = [*request.decode("latin-1").split(), "", ""]
        if not path.startswith("/"):
            return Answer(400, b"malformed request\n")
        if method != "GET":
            return Answer(405, b"only GET is served\n")
        handler = self._paths.get(path.partition("?")[0])
        if handler is None:
            return Answer(404, f"served paths: {', '.join(self._paths)}\n".encode())
        return handler()


async def _request_line(reader: asyncio.StreamReader) -> bytes:
    """Read a request up to the blank line; return its first line, empty when it is too long or cut short."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        return b""
    return head.partition(b"\r\n")[0]


def _response(answer: Answer) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + answer.body
