"""Calls that a front end forwards to the device process as bytes: all but ModelInfer and reflection.

Metadata, deadline, cancellation, status and trailing metadata pass unchanged in both directions. Messages are not parsed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from inference_server import evaluation, kserve
from zerofleet.rpc.failures import REQUEST_ID
from zerofleet.rpc.requests import outgoing
from zerofleet.rpc.security.bounded_calls import HEALTH_WATCH
from zerofleet.telemetry import tracing

__all__ = ["FORWARDED", "STREAMED", "Forwarder"]

FORWARDED = (
    *(f"/{kserve.SERVICE}/{name}" for name in kserve.METHODS if name != "ModelInfer"),
    f"/{evaluation.SERVICE}/Evaluate",
    "/grpc.health.v1.Health/Check",
)
"""Calls with one reply."""
STREAMED = (HEALTH_WATCH,)
"""Calls with a stream of replies."""

_OF_THE_CONNECTION = ("user-agent", "te", "content-type")  # and grpc-…: the channel to the device process has its own


class Forwarder(grpc.GenericRpcHandler):  # type: ignore[misc,unused-ignore]
    """Handler of the forwarded calls, over a channel to the device process."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._handlers = {method: _unary(channel.unary_unary(method)) for method in FORWARDED}
        self._handlers |= {method: _stream(channel.unary_stream(method)) for method in STREAMED}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, None for one that is not forwarded; called by grpc."""
        return self._handlers.get(handler_call_details.method)


def _unary(method: Any) -> Any:
    async def forward(request: bytes, context: Any) -> bytes:
        call = method(request, metadata=_metadata(context), timeout=context.time_remaining())
        try:
            reply: bytes = await call
            context.set_trailing_metadata(await call.trailing_metadata())
        except grpc.aio.AioRpcError as failure:
            await _fail(context, failure)
        finally:
            call.cancel()  # no effect on one that has ended
        return reply

    return grpc.unary_unary_rpc_method_handler(forward)


def _stream(method: Any) -> Any:
    async def forward(request: bytes, context: Any) -> AsyncIterator[bytes]:
        call = method(request, metadata=_metadata(context), timeout=context.time_remaining())
        try:
            async for reply in call:
                yield reply
            context.set_trailing_metadata(await call.trailing_metadata())
        except grpc.aio.AioRpcError as failure:
            await _fail(context, failure)
        finally:
            call.cancel()

    return grpc.unary_stream_rpc_method_handler(forward)


async def _fail(context: Any, failure: grpc.aio.AioRpcError) -> None:
    """Abort a call with the status of the device process."""
    await context.abort(failure.code(), failure.details() or "", tuple(failure.trailing_metadata() or ()))


def _metadata(context: Any) -> tuple[tuple[str, str | bytes], ...]:
    """Return the client's metadata, with the id and the span under which this process logs the call."""
    own = outgoing(())
    replaced = {key for key, _ in own} & {REQUEST_ID, tracing.HEADER}
    sent = context.invocation_metadata() or ()
    kept = ((key, value) for key, value in sent if key not in replaced and key not in _OF_THE_CONNECTION)
    return (*((key, value) for key, value in kept if not key.startswith(("grpc-", ":"))), *own)
