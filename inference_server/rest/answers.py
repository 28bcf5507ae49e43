"""Answers of the HTTP server: JSON, errors as `{"error": text}` with a status, protobuf messages as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

import grpc
from google.protobuf.descriptor import FieldDescriptor
from pydantic_core import to_json

from zerofleet.errors import ZerofleetError

__all__ = ["Answer", "HttpRefusal", "json_answer", "message_json", "refusal_answer"]

JSON, BINARY = "application/json", "application/octet-stream"

_STATUSES: Mapping[grpc.StatusCode, HTTPStatus] = {
    grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
_HEADERS: Mapping[HTTPStatus, tuple[tuple[str, str], ...]] = {
    HTTPStatus.UNAUTHORIZED: (("WWW-Authenticate", "Bearer"),),
    HTTPStatus.TOO_MANY_REQUESTS: (("Retry-After", "1"),),
    HTTPStatus.SERVICE_UNAVAILABLE: (("Retry-After", "1"),),
}


class HttpRefusal(ZerofleetError):
    """Request refused with this status of HTTP; `code` is the status of gRPC under which it is logged."""

    def __init__(
        self,
        status: HTTPStatus,
        text: str,
        *headers: tuple[str, str],
        code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers
        self.code = code

    @classmethod
    def of(cls, code: grpc.StatusCode, text: str) -> Self:
        """Return the refusal for a status of gRPC; one without a counterpart is 500."""
        status = _STATUSES.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)
        return cls(status, text, *_HEADERS.get(status, ()), code=code)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers of an answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def json_answer(content: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Return an answer with this content as JSON."""
    return Answer(status, to_json(content))


def refusal_answer(refusal: HttpRefusal) -> Answer:
    """Return the answer to a refused request."""
    return Answer(refusal.status, to_json({"error": str(refusal)}), headers=refusal.headers)


def message_json(message: Any) -> dict[str, Any]:
    """Return the content of a protobuf message with its own field names: numbers as numbers, enumerations by name.

    Fields without presence are written even if they are 0; empty lists and absent messages are left out; maps are not
    supported. (protobuf's own JSON writes numbers of 64 bits as texts, which clients of KServe do not read.)
    """
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            if value:
                found[field.name] = [_json_of(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _json_of(field, value)
    return found


def _json_of(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return message_json(value)
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else value
