"""Authorisation of a gRPC server: each call needs a token whose role may make it."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from zerofleet.rpc.handlers import in_place_of
from zerofleet.rpc.security.shares import host_of
from zerofleet.rpc.security.tokens import ADMIN_METHODS, TOKEN_HEADERS, Role, TokenTable, roles_of

__all__ = ["RoleInterceptor", "is_local"]

TOKEN_HEADER = TOKEN_HEADERS[0]

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]
Refusal = tuple[grpc.StatusCode, str]

_NOT_FROM_ELSEWHERE = (
    grpc.StatusCode.UNAUTHENTICATED,
    "models and champion are changed from the server's own machine alone while no token is configured",
)
_PLACE = f"the metadata {TOKEN_HEADER}"
_SHAPES = {False: "unary", True: "stream"}  # grpc's names for handlers of one message and of many


class RoleInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """Admits a call if the role of its token may make it.

    tokens        tokens with their roles
    admin_token   additional operator token; with it alone, only operator calls require a token
    on_refused    called for every refused call

    Without any token, operator calls are accepted only from this machine, all others from anywhere.
    """

    def __init__(
        self, tokens: TokenTable, *, admin_token: str | None = None, on_refused: Callable[[], None] = lambda: None
    ) -> None:
        self._tokens = tokens
        self._admin = TokenTable({admin_token: Role.OPERATOR} if admin_token else {})
        self._on_refused = on_refused

    async def intercept_service(self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Wrap the handler of a call; called by grpc."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        wanted = roles_of(method) if self._tokens or method in ADMIN_METHODS else None
        if handler is None or wanted is None:
            return handler
        if self._tokens or self._admin:
            refusal = self._refusal(handler_call_details.invocation_metadata, wanted)
            if refusal is not None:
                return self._turned_away(handler, refusal)
        return self._guarded(handler, wanted)

    def refusal(self, method: str, token: str, *, place: str = _PLACE) -> Refusal | None:
        """Return the refusal of a call made outside gRPC, None if it is authorised.

        `token`: that of the caller, empty without one, from `place`. Operator calls must come from a process of this machine.
        """
        wanted = roles_of(method) if self._tokens or method in ADMIN_METHODS else None
        if wanted is None or not (self._tokens or self._admin):
            return None
        refusal = self._refusal([(TOKEN_HEADER, token)] if token else [], wanted, place)
        if refusal is not None:
            self._on_refused()
        return refusal

    def _guarded(self, handler: Any, wanted: frozenset[Role]) -> Any:
        """Return the handler behind a check of each call.

        The caller is known only when the handler runs, and a cached handler must not admit another caller.
        """
        kind = f"{_SHAPES[handler.request_streaming]}_{_SHAPES[handler.response_streaming]}"
        behaviour = getattr(handler, kind)

        async def one(request: Any, context: Any) -> Any:
            await self._require(context, wanted)
            return await behaviour(request, context)

        async def several(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._require(context, wanted)
            async for reply in behaviour(request, context):
                yield reply

        return getattr(grpc, f"{kind}_rpc_method_handler")(
            several if handler.response_streaming else one,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _turned_away(self, handler: Any, refusal: Refusal) -> Any:
        """Return a handler that refuses at once.

        It takes a stream of requests, whatever the shape of the call: grpc starts such a handler without waiting for the
        body, so that an unauthorised client that never sends one cannot hold a call open.
        """
        self._on_refused()

        async def one(requests: Any, context: Any) -> None:
            await context.abort(*refusal)

        async def several(requests: Any, context: Any) -> AsyncIterator[Any]:
            await context.abort(*refusal)
            yield  # makes it a generator

        if handler.response_streaming:
            return in_place_of(handler, grpc.stream_stream_rpc_method_handler(several))
        return in_place_of(handler, grpc.stream_unary_rpc_method_handler(one))

    async def _require(self, context: Any, wanted: frozenset[Role]) -> None:
        if self._tokens or self._admin:
            refusal = self._refusal(context.invocation_metadata(), wanted)
        else:
            refusal = None if is_local(context.peer()) else _NOT_FROM_ELSEWHERE
        if refusal is not None:
            self._on_refused()
            await context.abort(*refusal)

    def _refusal(self, metadata: Any, wanted: frozenset[Role], place: str = _PLACE) -> Refusal | None:
        """Return the refusal for a caller, None if it is authorised."""
        given = [value for key, value in metadata or () if key == TOKEN_HEADER]
        if not given:
            return grpc.StatusCode.UNAUTHENTICATED, f"this call needs a token in {place}"
        presented = given[0].encode() if isinstance(given[0], str) else given[0]
        role = self._admin.role(presented) or self._tokens.role(presented)
        if role is None:
            return grpc.StatusCode.UNAUTHENTICATED, f"the token in {place} is not valid"
        if role not in wanted:
            may = ", ".join(sorted(wanted))
            return grpc.StatusCode.PERMISSION_DENIED, f"a token of the role {role} may not make this call; want {may}"
        return None


def is_local(peer: str) -> bool:
    """Return whether a peer in grpc's notation (`unix:`, `ipv4:1.2.3.4:5`, `ipv6:%5B::1%5D:5`) is this machine."""
    if peer.startswith("unix:"):
        return True
    try:
        address = ipaddress.ip_address(host_of(peer))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
