"""Mapping between domain errors and gRPC status codes, for both ends of a call.

Servers install `ErrorInterceptor`: domain errors are sent with their code and text, all others as INTERNAL with a random
incident id whose details stay in the log (grpc.aio would send the exception's text to the client). Clients convert a
failed call back into the same error with `error_from`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import structlog

from games.errors import GameError
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    StaleEpoch,
    Unavailable,
    ZerofleetError,
)

__all__ = ["ErrorInterceptor", "code_of", "status_of"]

log = structlog.get_logger()

LONGEST_STATUS_BYTES = 2_000  # percent-encoded up to three times as many, of the 8 KiB of all metadata

# Most specific first: the first matching class gives the code.
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (InvalidRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (GameError, grpc.StatusCode.INVALID_ARGUMENT),
    (ModelNotFound, grpc.StatusCode.NOT_FOUND),
    (CorruptModel, grpc.StatusCode.DATA_LOSS),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (PermissionRefused, grpc.StatusCode.PERMISSION_DENIED),
    (StaleEpoch, grpc.StatusCode.ABORTED),
    (ConfigurationError, grpc.StatusCode.FAILED_PRECONDITION),
    (ZerofleetError, grpc.StatusCode.UNKNOWN),
)


def code_of(error: BaseException) -> grpc.StatusCode | None:
    """Return the status code of a domain error, None for any other exception."""
    return next((code for cls, code in _CODES if isinstance(error, cls)), None)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return status code and text of an error. One that is no domain error is logged, and its text stays in the log."""
    code = code_of(error)
    if code is not None:
        return code, _status_text(str(error))
    incident = secrets.token_hex(6)
    log.error("rpc.failed", incident=incident, exc_info=error)
    return grpc.StatusCode.INTERNAL, f"internal error {incident}; the server's log has the details"


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Converts exceptions of handlers into statuses; aborted and cancelled calls pass through."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of a call; called by grpc."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None or (method.startswith("/grpc.") and not handler.request_streaming):
            return handler  # health aborts by itself
        # Requests are deserialised inside the guard: grpc would send the deserialiser's exception text to the caller.
        read, write = _reader(handler, method), handler.response_serializer
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(_guard_unary(handler.unary_unary, read), response_serializer=write)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(_guard_stream(handler.unary_stream, read), response_serializer=write)
        if handler.stream_stream is not None:  # reflection
            return grpc.stream_stream_rpc_method_handler(_guard_streams(handler.stream_stream, read), response_serializer=write)
        return handler


def _reader(handler: Any, method: str) -> Callable[[bytes], Any]:
    """Return a request deserialiser that raises `InvalidRequest` for malformed bytes."""

    def read(data: bytes) -> Any:
        if handler.request_deserializer is None:
            return data
        try:
            return handler.request_deserializer(data)
        except Exception as error:
            raise InvalidRequest(f"the request bytes are not a message of {method}") from error

    return read


def _guard_unary(behaviour: Callable[..., Awaitable[Any]], read: Callable[[bytes], Any]) -> Any:
    async def call(data: bytes, context: Any) -> Any:
        try:
            return await behaviour(read(data), context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, error)

    return call


def _guard_stream(behaviour: Callable[..., AsyncIterator[Any]], read: Callable[[bytes], Any]) -> Any:
    async def call(data: bytes, context: Any) -> AsyncIterator[Any]:
        try:
            async for reply in behaviour(read(data), context):
                yield reply
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, error)

    return call


def _guard_streams(behaviour: Callable[..., AsyncIterator[Any]], read: Callable[[bytes], Any]) -> Any:
    async def parsed(requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for data in requests:
            yield read(data)

    async def call(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        try:
            async for reply in behaviour(parsed(requests), context):
                yield reply
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, error)

    return call


def _status_text(text: str) -> str:
    """Return a text that fits into grpc's trailing metadata; a longer one, which may quote a request, would end the stream."""
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= LONGEST_STATUS_BYTES:
        return encoded.decode()
    return encoded[:LONGEST_STATUS_BYTES].decode(errors="ignore") + "…"


async def _abort(context: Any, error: Exception) -> NoReturn:
    """Abort the call with the status of `error`."""
    await context.abort(*status_of(error))
    raise AssertionError("abort returned")  # pragma: no cover
