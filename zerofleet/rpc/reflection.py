"""Reflection of the gRPC servers: descriptions of their services for tools such as grpcurl, with bounded cost.

    setting       unix socket, loopback address      any other address
    auto          described                          refused with UNIMPLEMENTED
    on            described                          described
    off           refused                            refused

A reflection call is a stream of questions, outside the bounds of other calls (`zerofleet.rpc.security.bounded_calls`): each is
read here, at most `STREAMS` streams at a time. A peer has its share of them. A stream has `MOST_QUESTIONS` questions of at most
`SMALL_BYTES` and ends after `STREAM_S`, whether its client sends anything or not. A client that does not read its answers keeps
its place, as of any call, until its connection ends. A server that drains calls `Reflection.close`, so that it waits for no
stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection, reflection_pb2

from zerofleet.rpc.addresses import is_near
from zerofleet.rpc.security.bounded_calls import SMALL_BYTES
from zerofleet.rpc.security.expiry import Expiries
from zerofleet.rpc.security.shares import Shares, peer_of

__all__ = ["MOST_QUESTIONS", "STREAMS", "STREAM_S", "Reflection", "ReflectionChoice", "add_reflection"]

ReflectionChoice: TypeAlias = Literal["auto", "on", "off"]

STREAMS = 8
"""Reflection streams in progress."""
MOST_QUESTIONS = 64
"""Questions of one stream: a tool asks for the list, and once for each service and file."""
STREAM_S = 30.0
"""Time after which a stream ends."""

_Request, _Reply = reflection_pb2.ServerReflectionRequest, reflection_pb2.ServerReflectionResponse
_REFUSAL = (
    grpc.StatusCode.UNIMPLEMENTED,
    "this server does not describe its services here: set reflection=on (auto does so on unix sockets and loopback alone)",
)
_STOPPING = (grpc.StatusCode.UNAVAILABLE, "the server is stopping")


def add_reflection(
    server: grpc.aio.Server,
    services: Sequence[str],
    *,
    choice: ReflectionChoice,
    address: str,
    streams: int = STREAMS,
    stream_s: float = STREAM_S,
    on_refused: Callable[[str], None] = lambda reason: None,
) -> Reflection:
    """Describe services at a server that listens on `address`, or refuse to, by the table above; before it starts.

    `on_refused` is called for every stream that is refused or ended, with its reason: calls or slow.
    """
    is_on = choice == "on" or (choice == "auto" and is_near(address))
    names = [*services, reflection.SERVICE_NAME]
    described = Reflection(names, Shares(streams), stream_s, on_refused)
    handler: grpc.RpcMethodHandler[bytes, Any] = grpc.stream_stream_rpc_method_handler(
        described.answer if is_on else _refuse,  # type: ignore[arg-type,unused-ignore]
        request_deserializer=None,  # bytes: their number is compared before they are parsed
        response_serializer=_Reply.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, methods),))
    return described


async def _refuse(requests: Any, context: Any) -> AsyncIterator[Any]:
    """Refuse a stream unread."""
    await context.abort(*_REFUSAL)
    yield  # makes it a generator


class Reflection:
    """Answers of the package grpcio-reflection, within the bounds of a stream.

    places   streams in progress
    """

    def __init__(self, services: Sequence[str], places: Shares, stream_s: float, on_refused: Callable[[str], None]) -> None:
        self.places = places
        self._servicer = reflection.ReflectionServicer(services)
        self._stream_s = stream_s
        self._on_refused = on_refused
        self._expiries = Expiries()
        self._open: set[_Stream] = set()
        self._is_closed = False

    def close(self) -> None:
        """End the streams in progress, and refuse further ones, with UNAVAILABLE."""
        self._is_closed = True
        for stream in self._open:
            stream.end(*_STOPPING)

    async def answer(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Yield the answers to a stream of questions. Cancellation: the place is freed."""
        peer = peer_of(context.peer())
        if self._is_closed:
            await context.abort(*_STOPPING)
        if not self.places.take(peer):
            await self._refuse(context, f"{self.places.taken} reflection streams are in progress, the share of this address")
        context.add_done_callback(lambda ended: self.places.give_back(peer))
        stream = _Stream(context, self._expiries)
        self._open.add(stream)
        expiry = asyncio.get_running_loop().call_later(self._stream_s, self._expire, stream)
        try:
            for _ in range(MOST_QUESTIONS):
                if (content := await stream.read()) is grpc.aio.EOF:
                    return
                question = await _parsed(content, context)
                for reply in self._servicer.ServerReflectionInfo(iter([question]), context):
                    yield reply
            await self._refuse(context, f"a reflection stream has at most {MOST_QUESTIONS} questions; begin another")
        finally:
            expiry.cancel()
            self._open.discard(stream)

    def _expire(self, stream: _Stream) -> None:
        self._on_refused("slow")
        stream.end(grpc.StatusCode.RESOURCE_EXHAUSTED, f"a reflection stream ends after {self._stream_s:g} s; begin another")

    async def _refuse(self, context: Any, text: str) -> None:
        self._on_refused("calls")
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


class _Stream:
    """Stream in progress, which may be ended from outside its handler.

    Only a stream that reads is aborted from outside; another aborts itself before its next read: grpc loses the status of an
    abort that meets a reply being sent, and the call would never end.
    """

    def __init__(self, context: Any, expiries: Expiries) -> None:
        self._context = context
        self._expiries = expiries
        self._is_reading = False
        self._end: tuple[grpc.StatusCode, str] | None = None

    def end(self, code: grpc.StatusCode, text: str) -> None:
        """End the stream soon; the first code and text count."""
        if self._end is None:
            self._end = (code, text)
            if self._is_reading:
                self._expiries.end(self._context, code, text)

    async def read(self) -> Any:
        """Return the next question, or EOF; aborts the stream after `end`. Cancellation: the question is lost."""
        if self._end is not None:
            await self._context.abort(*self._end)
        self._is_reading = True
        try:
            content = await self._context.read()
        finally:
            self._is_reading = False
        return grpc.aio.EOF if self._end is not None else content


async def _parsed(content: bytes, context: Any) -> Any:
    """Return a question; aborts the call for one that is too long or malformed."""
    if len(content) > SMALL_BYTES:
        text = f"the question has {len(content)} bytes, want at most {SMALL_BYTES}"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    try:
        return _Request.FromString(content)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the question is not a ServerReflectionRequest")
