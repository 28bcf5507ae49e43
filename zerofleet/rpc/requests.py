"""Request ids: one per call, in the server's log, in the reply and in downstream calls.

A client may set the id in `x-request-id`; otherwise the server generates one. It is added to every log line of the call,
returned in the trailing metadata and forwarded to downstream calls. Refused calls are logged, rate-limited per status
code. If the caller records a trace, the call is a span of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import grpc
import structlog

from zerofleet.rpc.failures import REQUEST_ID, request_id_in
from zerofleet.rpc.handlers import around
from zerofleet.rpc.security.tokens import OPEN_SERVICES
from zerofleet.telemetry import request_ids, tracing

__all__ = ["RequestInterceptor", "names_of", "outgoing"]

LINES_A_SECOND = 5
"""Maximum logged refusals per status code and second, so that a faulty client cannot fill the disk."""
LONGEST_TEXT = 500

log = structlog.get_logger()

Metadata = Sequence[tuple[str, str | bytes]]


def outgoing(own: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a downstream call: `own`, the current request id and traceparent."""
    if request_id := request_ids.current_id():
        own = (*own, (REQUEST_ID, request_id))
    if traceparent := tracing.traceparent():
        own = (*own, (tracing.HEADER, traceparent))
    return own


class RequestInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Assigns an id to every call. Must be outermost, so that all other interceptors log and refuse under the id."""

    def __init__(self, *, lines_a_second: int = LINES_A_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._quotas: dict[grpc.StatusCode, _Quota] = {}
        self._lines_a_second = lines_a_second
        self._clock = clock

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; called by grpc. Nothing is cached per method: other interceptors decide per caller."""
        method: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        # Probes come every few seconds and would only be noise.
        if handler is None or method.startswith(OPEN_SERVICES):
            return handler
        return around(handler, lambda context: _Named(self, context, method))

    def log_refusal(self, code: grpc.StatusCode, details: str) -> None:
        """Log a refused call, rate-limited. INTERNAL was already logged with its details."""
        if code is grpc.StatusCode.INTERNAL:
            return
        quota = self._quotas.setdefault(code, _Quota(self._lines_a_second))
        left_out = quota.take(self._clock())
        if left_out is not None:
            log.info("rpc.refused", code=code.name, text=details[:LONGEST_TEXT], left_out=left_out)


class _Named:
    """Context of a call with its id: bound for the log, returned, and a span if the caller records one."""

    __slots__ = ("_context", "_interceptor", "_method", "_traced")

    def __init__(self, interceptor: RequestInterceptor, context: Any, method: str) -> None:
        self._interceptor = interceptor
        self._context = context
        self._method = method
        self._traced: AbstractContextManager[tracing.Span] | None = None

    def __enter__(self) -> None:
        request_id, parent = names_of(self._context.invocation_metadata() or ())
        request_ids.bind(request_id, self._method)  # never unbound: each call is its own task
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
    """Limit of lines per second, with the number left out since the last line."""

    def __init__(self, a_second: int) -> None:
        self._a_second = a_second
        self._second = -1
        self._taken = 0
        self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """Return the number of lines left out before this one, None if this one exceeds the limit too."""
        if int(now_s) != self._second:
            self._second, self._taken = int(now_s), 0
        if self._taken == self._a_second:
            self._left_out += 1
            return None
        self._taken += 1
        before, self._left_out = self._left_out, 0
        return before


def names_of(metadata: Metadata) -> tuple[str, str]:
    """Return the id of a call, from the client or generated, and the caller's traceparent."""
    request_id = parent = ""
    for key, value in metadata:
        if key == REQUEST_ID:
            request_id = request_id_in(value)
        elif key == tracing.HEADER and tracing.is_on():
            parent = tracing.readable(value)
    return request_id or f"{random.getrandbits(64):016x}", parent
