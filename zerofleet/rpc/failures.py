"""Failed calls at the client: the domain error of a status, and the request id in its metadata.

The counterpart of `zerofleet.rpc.errors`, for calls of grpc and of grpc.aio.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

import grpc

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

__all__ = ["REQUEST_ID", "FailedCall", "call_error", "error_from", "error_of", "request_id_in", "request_id_of"]

REQUEST_ID = "x-request-id"
_ID = re.compile(r"[A-Za-z0-9._:/@-]{1,64}")

_ERRORS: dict[grpc.StatusCode, type[ZerofleetError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: ModelNotFound,
    grpc.StatusCode.DATA_LOSS: CorruptModel,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.PERMISSION_DENIED: PermissionRefused,
    grpc.StatusCode.UNAUTHENTICATED: PermissionRefused,
    grpc.StatusCode.ABORTED: StaleEpoch,
    grpc.StatusCode.FAILED_PRECONDITION: ConfigurationError,
}


class FailedCall(Protocol):
    """Failure of a call, as `grpc.aio.AioRpcError` and the errors of grpc's synchronous calls describe it."""

    def code(self) -> Any:
        """Return the `grpc.StatusCode`."""

    def details(self) -> str | None:
        """Return the text of the status."""

    def trailing_metadata(self) -> Any:
        """Return pairs of key and value, or None."""


def error_of(code: grpc.StatusCode, text: str) -> ZerofleetError:
    """Return the domain error of a status that one of our servers sent."""
    return _ERRORS.get(code, ZerofleetError)(text)


def error_from(failure: FailedCall, *, target: str) -> ZerofleetError:
    """Return our error for a failed call; the text names the server when it could not be reached.

    A status with a request id comes from one of our servers, whose own text is kept.
    """
    code, details, request_id = failure.code(), failure.details() or "", request_id_of(failure)
    cls = _ERRORS.get(code, ZerofleetError)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and not request_id:  # of a server that is absent, or still at work
        return Unavailable(f"{target} does not answer in time ({details}); is it running, and is the time limit long enough?")
    if cls is Unavailable and not request_id:
        return Unavailable(f"{target} does not answer ({code.name}: {details}); is it running?")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return cls(f"{target} lacks this call ({details or code.name}); is it the address of another service or release?")
    text = details or f"{target} answered {code.name}"
    if cls is ZerofleetError and request_id:
        text += f" (request {request_id})"
    return cls(text)


def call_error(failure: FailedCall, *, target: str) -> ZerofleetError:
    """Return the domain error for a failed call.

    A message over the size limit is an invalid request, not an overload; a version unloaded by Triton is not found, not
    unavailable: neither is worth a retry.
    """
    details = failure.details() or ""
    if failure.code() is grpc.StatusCode.UNAVAILABLE and "unknown model" in details:
        return ModelNotFound(details)
    if failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return InvalidRequest(f"{details}; send fewer positions in one request")
    return error_from(failure, target=target)


def request_id_of(failure: FailedCall) -> str:
    """Return the request id under which the server logged a failed call; empty if it returned none."""
    return request_id_in(dict(failure.trailing_metadata() or ()).get(REQUEST_ID))


def request_id_in(value: str | bytes | None) -> str:
    """Return the request id in a value of metadata; empty if it holds none."""
    text = value.decode("ascii", errors="replace") if isinstance(value, bytes) else value or ""
    return text if _ID.fullmatch(text) else ""
