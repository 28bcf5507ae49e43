"""Counting the calls of a gRPC server under the names of py-grpc-prometheus, unary and streaming alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from zerofleet import metrics

__all__ = ["CallMetrics"]


class CallMetrics(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Counts every call and its time. Stands outermost, so that it sees the status that leaves."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of one call; called by grpc."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        _, service, method = handler_call_details.method.split("/", 2)
        codec = {"request_deserializer": handler.request_deserializer, "response_serializer": handler.response_serializer}
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, ("UNARY", service, method)), **codec)
        if handler.unary_stream is not None and not service.startswith("grpc."):  # health's Watch is no generator
            labels = ("SERVER_STREAMING", service, method)
            return grpc.unary_stream_rpc_method_handler(_stream(handler.unary_stream, labels), **codec)
        return handler


def _unary(behaviour: Callable[..., Awaitable[Any]], labels: tuple[str, str, str]) -> Any:
    async def call(request: Any, context: Any) -> Any:
        with _counted(labels, context):
            return await behaviour(request, context)

    return call


def _stream(behaviour: Callable[..., AsyncIterator[Any]], labels: tuple[str, str, str]) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        with _counted(labels, context):
            async for reply in behaviour(request, context):
                yield reply

    return call


@contextmanager
def _counted(labels: tuple[str, str, str], context: Any) -> Iterator[None]:
    metrics.GRPC_STARTED.labels(*labels).inc()
    began_s = time.monotonic()
    code = "UNKNOWN"
    try:
        yield
        code = "OK"
    except (asyncio.CancelledError, GeneratorExit):
        code = "CANCELLED"
        raise
    except grpc.aio.AbortError:
        code = grpc.StatusCode(context.code()).name
        raise
    finally:
        metrics.GRPC_HANDLING.labels(*labels).observe(time.monotonic() - began_s)
        metrics.GRPC_HANDLED.labels(*labels, code).inc()
