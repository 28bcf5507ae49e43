"""Wrapping of gRPC handlers, shared by all interceptors."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import grpc

__all__ = ["around", "in_place_of", "rpc_type", "shape"]

_SHAPES = {False: "unary", True: "stream"}  # grpc's names for handlers of one message and of many
_TYPES = {"unary_unary": "UNARY", "unary_stream": "SERVER_STREAMING", "stream_unary": "CLIENT_STREAMING"}


def shape(handler: Any) -> str:
    """Return grpc's name for the shape of a handler, such as `unary_stream`."""
    return f"{_SHAPES[handler.request_streaming]}_{_SHAPES[handler.response_streaming]}"


def rpc_type(handler: Any) -> str:
    """Return the metric label for the shape of a handler, such as `SERVER_STREAMING`."""
    found: str = getattr(handler, "rpc_type", None) or _TYPES.get(shape(handler), "BIDI_STREAMING")
    return found


def in_place_of(handler: Any, refusing: Any) -> Any:
    """Return `refusing` as replacement of `handler`: its shape may differ, but metrics use that of `handler`."""
    refusing.rpc_type = rpc_type(handler)
    return refusing


def around(handler: Any, guard: Callable[[Any], AbstractContextManager[None]]) -> Any:
    """Return a handler of any shape whose calls run inside `guard(context)`."""
    kind = shape(handler)
    behaviour = getattr(handler, kind)

    async def one(request: Any, context: Any) -> Any:  # also for streams written with `context.write`
        with guard(context):
            return await behaviour(request, context)

    async def several(request: Any, context: Any) -> AsyncIterator[Any]:
        with guard(context):
            async for reply in behaviour(request, context):
                yield reply

    return getattr(grpc, f"{kind}_rpc_method_handler")(
        several if handler.response_streaming and _yields(behaviour) else one,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _yields(behaviour: Any) -> bool:
    return inspect.isasyncgenfunction(behaviour)
