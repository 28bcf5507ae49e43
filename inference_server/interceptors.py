"""Who may change models: holders of the token, or without one whoever is on this machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from zerofleet import metrics
from zerofleet.evaluators.control import TOKEN_HEADERS

__all__ = ["TokenInterceptor"]

TOKEN_HEADER = TOKEN_HEADERS[0]

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]
Behaviour = Callable[[Any, Any], Awaitable[Any]]


class TokenInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Lets only holders of the token call `methods`; without a token, only callers on this machine."""

    def __init__(self, methods: frozenset[str], token: str | None) -> None:
        self._methods = methods
        self._token = token.encode() if token else None

    async def intercept_service(self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Wrap the handler of one call; called by grpc."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method not in self._methods:
            return handler
        return _rewrapped(handler, self._guarded(handler.unary_unary))

    def _guarded(self, behaviour: Behaviour) -> Behaviour:
        async def call(request: Any, context: Any) -> Any:
            if (refusal := self._refusal(context)) is not None:
                metrics.INFERENCE_REFUSED.labels(reason="token").inc()
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, refusal)
            return await behaviour(request, context)

        return call

    def _refusal(self, context: Any) -> str | None:
        """Return why the caller may not, None when it may."""
        if self._token is None:
            if _is_local(context.peer()):
                return None
            return "models are changed from the server's own machine alone while no token is configured"
        given = [value for key, value in context.invocation_metadata() or () if key == TOKEN_HEADER]
        if not given:
            return f"this call needs the token in the metadata {TOKEN_HEADER}"
        presented = given[0].encode() if isinstance(given[0], str) else given[0]
        return None if hmac.compare_digest(presented, self._token) else f"the token in {TOKEN_HEADER} is not the right one"


def _rewrapped(handler: Any, behaviour: Behaviour) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        behaviour,  # type: ignore[arg-type,unused-ignore]
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _is_local(peer: str) -> bool:
    """Return whether a peer as grpc names it (`unix:`, `ipv4:1.2.3.4:5`, `ipv6:%5B::1%5D:5`) is this machine."""
    kind, _, rest = peer.partition(":")
    if kind == "unix":
        return True
    host = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
