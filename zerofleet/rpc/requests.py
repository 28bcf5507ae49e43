"""What a call is called: an id for each, in the logs of the server, in the answer, and in what is asked further on.

A client may name its call by `x-request-id`; other calls are given an id. It stands in every line that is logged while
the call is answered, comes back in the trailing metadata, and goes along with the calls that this one leads to. A call
that is refused is logged, a few of each status code a second. Where the caller records a trace, the call is a span of it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import grpc
import structlog

from zerofleet.rpc.handlers import around
from zerofleet.telemetry import request_ids, tracing

__all__ = ["REQUEST_ID", "RequestInterceptor", "outgoing", "request_id_of"]

REQUEST_ID = "x-request-id"
LINES_A_SECOND = 5
"""Refusals of one status code that are logged a second: a client that sends nothing else shall not fill the disk."""
LONGEST_TEXT = 500

_ID = re.compile(r"[A-Za-z0-9._:/@-]{1,64}")
log = structlog.get_logger()

Metadata = Sequence[tuple[str, str | bytes]]


def outgoing(own: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call to another service: `own`, and what names the request and the span we are in."""
    if request_id := request_ids.current_id():
        own = (*own, (REQUEST_ID, request_id))
    if traceparent := tracing.traceparent():
        own = (*own, (tracing.HEADER, traceparent))
    return own


def request_id_of(failure: grpc.aio.AioRpcError) -> str:
    """Return the id under which the server logged a call that failed; empty where it named none."""
    return _text(dict(failure.trailing_metadata() or ()).get(REQUEST_ID))


class RequestInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Names every call. Stands outermost, so that all other interceptors log and refuse under the name."""

    def __init__(self, *, lines_a_second: int = LINES_A_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._quotas: dict[grpc.StatusCode, _Quota] = {}
        self._lines_a_second = lines_a_second
        self._clock = clock

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of one call; called by grpc. Nothing is kept by method: others decide by who calls."""
        method: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        # Probes come every few seconds and say nothing of us.
        if handler is None or method.startswith("/grpc."):
            return handler
        return around(handler, lambda context: _Named(self, context, method))

    def log_refusal(self, code: grpc.StatusCode, details: str) -> None:
        """Log a refused call, unless there were many. What failed in us (INTERNAL) was logged with all its details already."""
        if code is grpc.StatusCode.INTERNAL:
            return
        quota = self._quotas.setdefault(code, _Quota(self._lines_a_second))
        left_out = quota.take(self._clock())
        if left_out is not None:
            log.info("rpc.refused", code=code.name, text=details[:LONGEST_TEXT], left_out=left_out)


class _Named:
    """A call under its name: bound for the log, sent back, and a span where its caller records one."""

    __slots__ = ("_context", "_interceptor", "_method", "_traced")

    def __init__(self, interceptor: RequestInterceptor, context: Any, method: str) -> None:
        self._interceptor = interceptor
        self._context = context
        self._method = method
        self._traced: AbstractContextManager[tracing.Span] | None = None

    def __enter__(self) -> None:
        request_id, parent = _names(self._context.invocation_metadata() or ())
        request_ids.bind(request_id, self._method)  # not taken back: each call is a task of its own
        self._context.set_trailing_metadata(((REQUEST_ID, request_id),))
        if parent:
            self._traced = tracing.follow(self._method[1:], parent=parent, kind=tracing.SpanKind.SERVER, request_id=request_id)
            self._traced.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, grpc.aio.AbortError):
            code = grpc.StatusCode(self._context.code())
            tracing.note(**{"rpc.grpc.status_code": int(code.value[0])})
            self._interceptor.log_refusal(code, self._context.details())
        if self._traced is not None:
            self._traced.__exit__(kind, error, trace)


class _Quota:
    """So many lines a second, and how many were left out since the last one."""

    def __init__(self, a_second: int) -> None:
        self._a_second = a_second
        self._second = -1
        self._taken = 0
        self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """Return how many lines were left out before this one, None when this one shall be as well."""
        if int(now_s) != self._second:
            self._second, self._taken = int(now_s), 0
        if self._taken == self._a_second:
            self._left_out += 1
            return None
        self._taken += 1
        before, self._left_out = self._left_out, 0
        return before


def _names(metadata: Metadata) -> tuple[str, str]:
    """Return the id of a call, its client's or a new one, and the traceparent of its caller."""
    request_id = parent = ""
    for key, value in metadata:
        if key == REQUEST_ID:
            request_id = _text(value)
        elif key == tracing.HEADER and tracing.is_on():
            parent = tracing.readable(value)
    return request_id or f"{random.getrandbits(64):016x}", parent


def _text(value: str | bytes | None) -> str:
    text = value.decode("ascii", errors="replace") if isinstance(value, bytes) else value or ""
    return text if _ID.fullmatch(text) else ""
