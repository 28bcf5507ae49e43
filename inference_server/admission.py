"""Admission control: while the queue is full, inference calls are rejected before their message is read.

Reading requests only to reject them is the most expensive part of a flood. Once a request did not fit, further calls are
therefore rejected unread until an eighth of the queue is free again. Calls that announce high priority are rejected only once
a request of high priority did not fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from inference_server.kserve import SERVICE
from zerofleet.contracts.priorities import Priority, announced
from zerofleet.telemetry import metrics

__all__ = ["AdmissionInterceptor"]

_METHOD = f"/{SERVICE}/ModelInfer"
_LABELS = ("UNARY", SERVICE, "ModelInfer")


class AdmissionInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Outermost interceptor.

    full        returns the reason to reject a request of a priority, None while there is room
    on_refused  called for every rejected request; counts it in this process by default
    """

    def __init__(self, full: Callable[[Priority], str | None], *, on_refused: Callable[[], object] | None = None) -> None:
        self._full = full
        self._on_refused = on_refused or metrics.INFERENCE_REFUSED.labels(reason="overload").inc
        self._started = metrics.GRPC_STARTED.labels(*_LABELS)
        self._handled = metrics.GRPC_HANDLED.labels(*_LABELS, grpc.StatusCode.RESOURCE_EXHAUSTED.name)
        # A client-streaming handler: grpc reads no message before the handler requests one.
        self._refusal: Any = grpc.stream_unary_rpc_method_handler(self._refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Continue the call or reject it; called by grpc."""
        if handler_call_details.method != _METHOD:
            return await continuation(handler_call_details)
        priority = announced(handler_call_details.invocation_metadata or ())
        return await continuation(handler_call_details) if self._full(priority) is None else self._refusal

    async def _refuse(self, requests: Any, context: Any) -> None:
        """Abort with RESOURCE_EXHAUSTED without reading the request. Cancellation: no state is left behind."""
        self._started.inc()
        self._on_refused()
        self._handled.inc()
        await context.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            self._full(announced(context.invocation_metadata() or ())) or "the queue was full; try again later",
        )
