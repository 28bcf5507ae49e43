"""Refusing calls unread: while the queue is full, a call for an evaluation is turned away before its message is looked at.

A flood costs the server most where it reads requests only to refuse them. So once a request did not fit, further ones are
refused at the door until an eighth of the queue is free again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from inference_server.kserve import SERVICE
from zerofleet.telemetry import metrics

__all__ = ["AdmissionInterceptor"]

_METHOD = f"/{SERVICE}/ModelInfer"
_LABELS = ("UNARY", SERVICE, "ModelInfer")


class AdmissionInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Stands before all others. `full` says why a request would be refused, None while there is room."""

    def __init__(self, full: Callable[[], str | None]) -> None:
        self._full = full
        self._started = metrics.GRPC_STARTED.labels(*_LABELS)
        self._handled = metrics.GRPC_HANDLED.labels(*_LABELS, grpc.StatusCode.RESOURCE_EXHAUSTED.name)
        self._refused = metrics.INFERENCE_REFUSED.labels(reason="overload")
        # A handler of a stream of requests: grpc reads none of it before the handler asks.
        self._refusal: Any = grpc.stream_unary_rpc_method_handler(self._refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Let the call pass, or answer it with the refusal; called by grpc."""
        if handler_call_details.method == _METHOD and self._full() is not None:
            return self._refusal
        return await continuation(handler_call_details)

    async def _refuse(self, requests: Any, context: Any) -> None:
        """Answer RESOURCE_EXHAUSTED without a look at the request. Cancellation: nothing is left."""
        self._started.inc()
        self._refused.inc()
        self._handled.inc()
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._full() or "the queue was full; try again later")
