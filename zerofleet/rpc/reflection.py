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
        self._open: set[Any] = set()
        self._is_closed = False

    def close(self) -> None:
        """End the streams in progress, and refuse further ones, with UNAVAILABLE."""
        self._is_closed = True
        for context in self._open:
            self._expiries.end(context, *_STOPPING)

    async def answer(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Yield the answers to a stream of questions. Cancellation: the place is freed."""
        peer = peer_of(context.peer())
        if self._is_closed:
            await context.abort(*_STOPPING)
        if not self.places.take(peer):
            await self._refuse(context, f"{self.places.taken} reflection streams are in progress, the share of this address")
        context.add_done_callback(lambda ended: self._leave(context, peer))
        self._open.add(context)
        text = f"a reflection stream ends after {self._stream_s:g} s; begin another"
        expiry = self._expiries.begin(context, self._stream_s, text, lambda: self._on_refused("slow"))
        try:
            for _ in range(MOST_QUESTIONS):
                if (content := await context.read()) is grpc.aio.EOF:
                    return
                question = await _parsed(content, context)
                for reply in self._servicer.ServerReflectionInfo(iter([question]), context):
                    yield reply
            await self._refuse(context, f"a reflection stream has at most {MOST_QUESTIONS} questions; begin another")
        finally:
            expiry.cancel()

    def _leave(self, context: Any, peer: str | None) -> None:
        self._open.discard(context)
        self.places.give_back(peer)

    async def _refuse(self, context: Any, text: str) -> None:
        self._on_refused("calls")
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


async def _parsed(content: bytes, context: Any) -> Any:
    """Return a question; aborts the call for one that is too long or malformed."""
    if len(content) > SMALL_BYTES:
        text = f"the question has {len(content)} bytes, want at most {SMALL_BYTES}"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
    try:
        return _Request.FromString(content)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the question is not a ServerReflectionRequest")
