"""A unary call as grpc takes it, for requests that may be no message at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from zerofleet.errors import InvalidRequest

__all__ = ["unary_method"]


def unary_method(behaviour: Callable[[Any, Any], Awaitable[Any]], request: Any, reply: Any) -> Any:
    """Return the handler of a call that takes message `request` and returns message `reply`.

    Bytes that cannot be parsed raise `InvalidRequest` inside the interceptors. (grpc itself would answer UNKNOWN and log
    a traceback for each.)
    """

    def parse(content: bytes) -> Any:
        try:
            return request.FromString(content)
        except DecodeError as error:
            return error

    async def call(parsed: Any, context: Any) -> Any:
        if isinstance(parsed, DecodeError):
            raise InvalidRequest(f"the bytes of the request are no {request.DESCRIPTOR.full_name}")
        return await behaviour(parsed, context)

    return grpc.unary_unary_rpc_method_handler(
        call,  # type: ignore[arg-type,unused-ignore]
        request_deserializer=parse,
        response_serializer=reply.SerializeToString,
    )
