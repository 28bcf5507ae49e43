"""Metrics of the calls of a gRPC server, with the names of py-grpc-prometheus, for every service and RPC type."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import grpc

from zerofleet.rpc.handlers import around, rpc_type
from zerofleet.telemetry import metrics

__all__ = ["CallMetrics"]


class CallMetrics(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Counts and times every call. Must precede interceptors that refuse calls, so that it sees the final status."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; called by grpc."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # unknown method: clients must not be able to create labels
        _, service, method = handler_call_details.method.split("/", 2)
        calls = _Calls((rpc_type(handler), service, method))
        return around(handler, lambda context: _Counted(calls, context))


class _Calls:
    """Metrics of one method."""

    __slots__ = ("handling", "labels", "started")

    def __init__(self, labels: tuple[str, str, str]) -> None:
        self.labels = labels
        self.started = metrics.GRPC_STARTED.labels(*labels)
        self.handling = metrics.GRPC_HANDLING.labels(*labels)


class _Counted:
    """Context of a call, from its start to its final status."""

    __slots__ = ("_began_s", "_calls", "_context")

    def __init__(self, calls: _Calls, context: Any) -> None:
        self._calls = calls
        self._context = context

    def __enter__(self) -> None:
        self._calls.started.inc()
        self._began_s = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._calls.handling.observe(time.monotonic() - self._began_s)
        metrics.GRPC_HANDLED.labels(*self._calls.labels, _code(error, self._context)).inc()


def _code(error: BaseException | None, context: Any) -> str:
    if error is None:
        return "OK"
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "CANCELLED"
    return str(grpc.StatusCode(context.code()).name) if isinstance(error, grpc.aio.AbortError) else "UNKNOWN"
