"""Bounds on the calls of a gRPC server: their number, and the bytes of the requests that they hold.

grpc reads the request of a unary call completely before it starts the handler, for any number of calls. Here every unary
request is taken as a stream, of which grpc reads nothing before the handler asks for it. A call that is being read counts as
the largest message; once read, as the size of its message, until its reply has been sent. Calls beyond the bounds are refused
unread with RESOURCE_EXHAUSTED, and a request that has not arrived after `READ_S` ends.

    calls         in progress, except those below
    long-lived    calls without end, such as a watch, by method: they never take the places of the others
    open          health checks, which need no token

Each peer has its share of each bound (`zerofleet.rpc.security.shares`). Requests of long-lived and open calls have at most
`SMALL_BYTES` and a budget of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc

from zerofleet.rpc.handlers import shape
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.expiry import Expiries
from zerofleet.rpc.security.shares import Shares, peer_of
from zerofleet.rpc.security.tokens import OPEN_SERVICES

__all__ = ["HEALTH_WATCH", "OPEN_CALLS", "READ_S", "SMALL_BYTES", "SMALL_READS", "BoundedCalls", "HeldCall"]

HEALTH_WATCH = "/grpc.health.v1.Health/Watch"
OPEN_CALLS = 256
"""Health checks in progress."""
SMALL_BYTES = 1 << 10
"""Largest request of a long-lived or open call: a name."""
SMALL_READS = 8
"""Requests of such calls that are being read."""
READ_S = 15.0
"""Time in which a request has to arrive."""


class BoundedCalls(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Outermost interceptor, except for those that refuse calls unread.

    message_bytes     largest message that grpc accepts
    bytes_in_flight   bytes of requests in progress, at least two messages
    calls             calls in progress that are neither long-lived nor open
    long_lived        places of each method whose calls do not end
    read_s            time in which a request has to arrive
    connections       bound on connections, whose surplus gets no call answered; None for none
    on_refused        called for every refused call, with its reason: connections, calls, memory or slow
    """

    def __init__(
        self,
        *,
        message_bytes: int,
        bytes_in_flight: int,
        calls: int,
        long_lived: Mapping[str, int],
        read_s: float = READ_S,
        connections: Connections | None = None,
        on_refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._message_bytes = message_bytes
        self._read_s = read_s
        self._connections = connections
        self._on_refused = on_refused
        small = Shares(SMALL_READS * message_bytes)
        self._calls = _Pool(Shares(calls), Shares(max(bytes_in_flight, 2 * message_bytes)), message_bytes)
        self._open = _Pool(Shares(OPEN_CALLS), small, SMALL_BYTES)
        self._long_lived = {method: _Pool(Shares(places), small, SMALL_BYTES) for method, places in long_lived.items()}
        self._expiries = Expiries()

    @property
    def most_calls(self) -> int:
        """Largest number of calls in progress, for grpc's own limit."""
        return sum(pool.places.total for pool in (self._calls, self._open, *self._long_lived.values()))

    def held_by(self, peer: str) -> HeldCall:
        """Return the share, still empty, of a call outside gRPC; `peer` in grpc's notation. It counts as a unary call."""
        return HeldCall(self._calls, peer_of(peer))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; called by grpc."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None or handler.request_streaming:
            return handler  # unknown, refused unread, or reflection, which has bounds of its own (`zerofleet.rpc.reflection`)
        pool = self._long_lived.get(method) or (self._open if method.startswith(OPEN_SERVICES) else self._calls)
        kind = shape(handler)
        behaviour, read = getattr(handler, kind), handler.request_deserializer

        async def one(requests: Any, context: Any) -> Any:  # also for streams written with `context.write`
            return await behaviour(await self._request(pool, context, read), context)

        async def several(requests: Any, context: Any) -> AsyncIterator[Any]:
            async for reply in behaviour(await self._request(pool, context, read), context):
                yield reply

        as_stream = (
            grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
        )
        return as_stream(
            several if inspect.isasyncgenfunction(behaviour) else one, response_serializer=handler.response_serializer
        )

    async def _request(self, pool: _Pool, context: Any, read: Callable[[bytes], Any] | None) -> Any:
        """Return the request of a call, within the bounds; aborts the call otherwise. Cancellation: the bounds are freed."""
        peer = context.peer()
        if self._connections is not None and (full := self._connections.refusal(peer)) is not None:
            await self._refuse(context, "connections", full)
        held = HeldCall(pool, peer_of(peer))
        context.add_done_callback(held.leave)  # when the reply has been sent, whatever the end of the call
        if (full := held.enter()) is not None:
            await self._refuse(context, "calls", full)
        if (full := held.reserve(self._message_bytes)) is not None:
            await self._refuse(context, "memory", full)
        late = f"the request did not arrive within {self._read_s:g} s"
        expiry = self._expiries.begin(context, self._read_s, late, lambda: self._on_refused("slow"))
        try:
            content = await context.read()
        finally:
            expiry.cancel()
        if content is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no request message")
        if len(content) > pool.largest_bytes:
            text = f"the request has {len(content)} bytes, want at most {pool.largest_bytes}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        held.settle(len(content))
        if read is None:
            return content
        try:
            return read(content)
        except Exception:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request bytes are not a message of this call")

    async def _refuse(self, context: Any, reason: str, text: str) -> None:
        self._on_refused(reason)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


class _Pool:
    """Bounds of one kind of calls."""

    __slots__ = ("bytes", "largest_bytes", "places")

    def __init__(self, places: Shares, bytes_: Shares, largest_bytes: int) -> None:
        self.places = places
        self.bytes = bytes_
        self.largest_bytes = largest_bytes


class HeldCall:
    """Share of the bounds that one call holds."""

    __slots__ = ("_bytes", "_entered", "_peer", "_pool")

    def __init__(self, pool: _Pool, peer: str | None) -> None:
        self._pool = pool
        self._peer = peer
        self._entered = False
        self._bytes = 0

    def enter(self) -> str | None:
        """Take a place; return the reason if there is none."""
        self._entered = self._pool.places.take(self._peer)
        if self._entered:
            return None
        return f"{self._pool.places.taken} calls are in progress, the share of this address; try again later"

    def reserve(self, size_bytes: int) -> str | None:
        """Take bytes for the request; return the reason if they are not free."""
        pool = self._pool
        if not pool.bytes.take(self._peer, size_bytes):
            return f"requests in progress hold {pool.bytes.taken} bytes of {pool.bytes.total}; try again later"
        self._bytes = size_bytes
        return None

    def settle(self, size_bytes: int) -> None:
        """Keep only the size of the message that was read."""
        self._pool.bytes.give_back(self._peer, self._bytes - size_bytes)
        self._bytes = size_bytes

    def leave(self, context: object = None) -> None:
        """Free everything; `context` is that of a gRPC call that ended."""
        if self._bytes:
            self._pool.bytes.give_back(self._peer, self._bytes)
        if self._entered:
            self._pool.places.give_back(self._peer)
        self._bytes, self._entered = 0, False
