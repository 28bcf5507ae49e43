"""One connection of the HTTP server: requests one after another, each within time limits.

h11 reads and writes HTTP/1.1; sizes and times are bounded here:

    idle_s     from one request to the first byte of the next; for the first one `transfer_s`, the TLS handshake included
    transfer_s from the first byte of a request to its last, and for the reply to be taken
    head       16 KiB and 100 lines, counted before h11 parses it on the event loop
    body       of the length that its head announces, and for which `routes` has reserved memory; chunked bodies announce none

A caller that disconnects cancels its request. Other tasks run between two requests, also if a caller sends many ahead.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from contextlib import ExitStack, nullcontext, suppress
from http import HTTPStatus
from typing import Any

import h11

from inference_server.rest.answers import Answer, HttpRefusal
from inference_server.rest.routes import Call, Request, Routes, route_of
from zerofleet.rpc.failures import REQUEST_ID
from zerofleet.rpc.requests import names_of
from zerofleet.telemetry import metrics, request_ids, tracing

__all__ = ["Connection"]

MAX_HEAD_BYTES = 16 << 10
MAX_HEAD_LINES = 100
READ_BYTES = 64 << 10
LINGER_S = 2.0
"""Time in which a refused caller may take its answer before the rest of its request is cut off."""

_INCOMPLETE = {h11.IDLE, h11.SEND_BODY, h11.ERROR}
"""States of h11 for a caller whose request has not arrived. `DONE` is one of several others: a caller may announce its end, or
a wish for HTTP/2."""
_END_OF_HEAD = re.compile(rb"\n\r?\n")  # as h11 finds it
_SHOWN = 200


class Connection:
    """A connection that has been accepted."""

    def __init__(self, routes: Routes, peer: str, *, idle_s: float, transfer_s: float) -> None:
        self.is_idle = True
        """Whether no request is in progress."""
        self.is_last = False
        """Set to close the connection after the request in progress."""
        self._routes = routes
        self._peer = peer
        self._idle_s = idle_s
        self._transfer_s = transfer_s
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._working: asyncio.Task[None] | None = None
        self._is_head = False
        """Whether the request has the method HEAD, whose answer has no body."""

    async def serve(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Answer requests until either side closes the connection. Cancellation: the connection is cut."""
        loop = asyncio.get_running_loop()
        first_ends_at = loop.time() + self._transfer_s
        self._reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        protocol = _Protocol(self._reader, loop, self._caller_is_gone)
        try:
            async with asyncio.timeout_at(first_ends_at):
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=tls)
        except (OSError, TimeoutError):  # ssl's errors are OSErrors
            accepted.close()
            return
        transport.set_write_buffer_limits(high=0)  # `drain` waits until the kernel has everything
        self._writer = asyncio.StreamWriter(transport, protocol, self._reader, loop)
        try:
            begins_by = first_ends_at
            while await self._exchange(begins_by):
                await asyncio.sleep(0)
                begins_by = loop.time() + self._idle_s
            await self._close()
        except (OSError, TimeoutError):
            pass  # the caller disconnected or is too slow
        finally:
            transport.abort()

    async def _exchange(self, begins_by: float) -> bool:
        """Answer one request that begins before `begins_by` in `loop.time()`; return whether another may follow."""
        self.is_idle = True
        if self.is_last or not await self._has_begun(begins_by):
            return False
        self.is_idle = self._is_head = False
        request_ids.bind(names_of(())[0], "http malformed")  # not that of the request before
        began_s, ends_at = time.monotonic(), asyncio.get_running_loop().time() + self._transfer_s
        route, status = "malformed", "cancelled"
        try:
            with ExitStack() as stack:
                try:
                    async with asyncio.timeout_at(ends_at):
                        request = await self._head()
                    if request is None:
                        return False
                    route = route_of(request)[0]
                    stack.enter_context(_named(request, route))
                    answer = await self._answer(request, stack, ends_at)
                except HttpRefusal as refusal:
                    answer = self._routes.failed(refusal)
                except h11.RemoteProtocolError as error:
                    text = f"malformed request: {str(error)[:_SHOWN]}"
                    answer = self._routes.failed(HttpRefusal(HTTPStatus(error.error_status_hint), text))
                except TimeoutError:
                    self._routes.on_refused("slow")
                    text = f"the request did not arrive within {self._transfer_s:g} s"
                    answer = self._routes.failed(HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, text))
                status = str(answer.status.value)
                return await self._send(answer)
        finally:
            if (route, status) != ("malformed", "cancelled"):
                metrics.INFERENCE_HTTP.labels(route=route, status=status).inc()
                metrics.INFERENCE_HTTP_HANDLING.labels(route=route).observe(time.monotonic() - began_s)

    async def _has_begun(self, begins_by: float) -> bool:
        """Wait for the first bytes of a request; return whether there are any."""
        if self._http.trailing_data[0]:
            return True
        async with asyncio.timeout_at(begins_by):
            received = await self._reader.read(READ_BYTES)
        self._http.receive_data(received)
        return bool(received)

    async def _head(self) -> Request | None:
        """Return the next request; None at the end of the connection. Raises `HttpRefusal`, `h11.RemoteProtocolError`."""
        self._require_short_head()
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
            self._require_short_head()
        if not isinstance(event, h11.Request):
            return None
        self._is_head = event.method == b"HEAD"
        headers: dict[str, str] = {}
        for raw_name, raw_value in event.headers:
            name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if "transfer-encoding" in headers:
            raise HttpRefusal(HTTPStatus.LENGTH_REQUIRED, "chunked requests are not accepted; send Content-Length")
        path, size_bytes = event.target.decode("latin-1").partition("?")[0], int(headers.get("content-length", "0"))
        if not size_bytes:
            await self._event()  # the end of the request
        return Request(event.method.decode("ascii"), path, headers, self._peer, size_bytes)

    def _require_short_head(self) -> None:
        content = self._http.trailing_data[0]
        end = _END_OF_HEAD.search(content)
        size_bytes = end.end() if end is not None else len(content)
        if size_bytes > MAX_HEAD_BYTES or content.count(b"\n", 0, size_bytes) > MAX_HEAD_LINES:
            raise HttpRefusal(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the head of the request is too long, want at most {MAX_HEAD_BYTES} bytes and {MAX_HEAD_LINES} lines",
            )

    async def _answer(self, request: Request, stack: ExitStack, ends_at: float) -> Answer:
        """Return the answer; the request's share of the bounds is held until `stack` is closed, after the reply."""
        try:
            call = stack.enter_context(self._routes.admitted(request))
            async with asyncio.timeout_at(ends_at):
                body = await self._body() if request.size_bytes else b""
        except (OSError, h11.RemoteProtocolError):  # too slow, disconnected or malformed
            raise
        except Exception as error:
            return self._routes.failed(error)
        return await self._called(call, body)

    async def _called(self, call: Call, body: bytes) -> Answer:
        """Return the answer of an admitted request. Cancellation: also when the caller disconnects."""
        self._working = asyncio.current_task()
        try:
            return await call(body)
        except Exception as error:
            return self._routes.failed(error)
        finally:
            self._working = None

    async def _body(self) -> bytes:
        if self._http.they_are_waiting_for_100_continue:
            await self._write(self._http.send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])))
        content = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the connection ended inside the body")
            content += event.data
        return bytes(content)

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def _send(self, answer: Answer) -> bool:
        """Send an answer; return whether another request may follow."""
        is_complete = self._http.their_state not in _INCOMPLETE
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            *answer.headers,
            *(((REQUEST_ID, request_ids.current_id()),) if request_ids.current_id() else ()),
            *((("Connection", "close"),) if self.is_last or not is_complete else ()),
        ]
        response = h11.Response(status_code=answer.status, headers=headers, reason=answer.status.phrase)
        parts = [self._http.send(response)]
        if not self._is_head:
            parts.append(self._http.send(h11.Data(data=answer.body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        await self._write(b"".join(part for part in parts if part))
        if not is_complete:
            await self._linger()
        if self._http.our_state is not h11.DONE or not is_complete:
            return False
        self._http.start_next_cycle()
        return True

    async def _write(self, content: bytes | None) -> None:
        self._writer.write(content or b"")
        async with asyncio.timeout(self._transfer_s):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Discard the rest of a refused request for a while: cutting it off at once could cost the caller the answer."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(LINGER_S, self._transfer_s)):
                while await self._reader.read(READ_BYTES):
                    pass

    async def _close(self) -> None:
        self._writer.close()
        async with asyncio.timeout(self._transfer_s):
            await self._writer.wait_closed()

    def _caller_is_gone(self) -> None:
        if self._working is not None:
            self._working.cancel()


class _Protocol(asyncio.StreamReaderProtocol):
    """Stream that reports the caller's end of the connection at once."""

    def __init__(self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop, on_gone: Any) -> None:
        super().__init__(reader, loop=loop)
        self._on_gone = on_gone

    def eof_received(self) -> bool | None:
        self._on_gone()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_gone()
        super().connection_lost(exc)


def _named(request: Request, route: str) -> Any:
    """Bind the id of a request for the log and the answer; return the span of its trace, if its caller records one."""
    request_id, parent = names_of(tuple(request.headers.items()))
    request_ids.bind(request_id, f"http {route}")
    if not parent:
        return nullcontext()
    return tracing.follow(f"http {route}", parent=parent, kind=tracing.SpanKind.SERVER, request_id=request_id)
