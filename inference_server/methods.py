"""Handlers of unary calls, tolerant of malformed requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from zerofleet.errors import InvalidRequest

__all__ = ["unary_method"]


def unary_method(behaviour: Callable[[Any, Any], Awaitable[Any]], request: Any, reply: Any) -> Any:
    """Return the handler of a call from message `request` to message `reply`.

    Malformed bytes raise `InvalidRequest` inside the interceptors. (grpc itself would return UNKNOWN and log a traceback
    for each.)
    """

    def parse(content: bytes) -> Any:
        try:
            return request.FromString(content)
        except DecodeError as error:
            return error

    async def call(parsed: Any, context: Any) -> Any:
        if isinstance(parsed, DecodeError):
            raise InvalidRequest(f"the request is not a valid {request.DESCRIPTOR.full_name} message")
        return await behaviour(parsed, context)

    return grpc.unary_unary_rpc_method_handler(
        call,  # type: ignore[arg-type,unused-ignore]
        request_deserializer=parse,
        response_serializer=reply.SerializeToString,
    )
