"""Paths of KServe v2 over HTTP, with the roles and bounds of the gRPC calls that they stand for.

    /v2                                                          ServerMetadata
    /v2/health/live, /v2/health/ready                            ServerLive, ServerReady; without a token, as health checks
    /v2/models/stats                                             ModelStatistics of all models
    /v2/models/NAME[/versions/VERSION]                           ModelMetadata
    /v2/models/NAME[/versions/VERSION]/ready, /config, /stats    ModelReady, ModelConfig, ModelStatistics
    /v2/models/NAME[/versions/VERSION]/infer                     ModelInfer

Models are loaded and unloaded over gRPC alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from inference_server.data_plane import DataPlane
from inference_server.kserve import SERVICE, KServeServicer
from inference_server.rest.answers import Answer, HttpRefusal, json_answer, message_json, refusal_answer
from inference_server.rest.infer_bodies import HEADER_LENGTH, infer_answer, read_infer
from zerofleet.contracts.priorities import announced
from zerofleet.errors import Overloaded
from zerofleet.rpc.errors import status_of
from zerofleet.rpc.requests import RequestInterceptor
from zerofleet.rpc.security.bounded_calls import SMALL_BYTES, BoundedCalls, HeldCall
from zerofleet.rpc.security.interceptors import RoleInterceptor

__all__ = ["Call", "Request", "Routes", "route_of"]

OPEN_METHOD = "/grpc.health.v1.Health/Check"
"""Call whose roles hold for live and ready: none is needed."""
TOKEN_PLACE = "the header Authorization, as Bearer TOKEN"  # noqa: S105 - where it is, not what it is

EXTENSIONS = ("binary_tensor_data", "model_configuration", "statistics")

_MODEL = r"/v2/models/(?P<model>[^/]+)(/versions/(?P<version>[^/]+))?"
_PATHS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (route, method, re.compile(path))
    for route, method, path in (
        ("metadata", "GET", r"/v2/?"),
        ("live", "GET", r"/v2/health/live"),
        ("ready", "GET", r"/v2/health/ready"),
        ("stats", "GET", r"/v2/models/stats"),
        ("model", "GET", _MODEL),
        ("model_ready", "GET", f"{_MODEL}/ready"),
        ("config", "GET", f"{_MODEL}/config"),
        ("stats", "GET", f"{_MODEL}/stats"),
        ("infer", "POST", f"{_MODEL}/infer"),
    )
)
_METHODS = {
    "metadata": "ServerMetadata",
    "model": "ModelMetadata",
    "model_ready": "ModelReady",
    "config": "ModelConfig",
    "stats": "ModelStatistics",
    "infer": "ModelInfer",
}

Call = Callable[[bytes], Awaitable[Answer]]
"""The rest of an admitted request: from its body to the answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """Head of a request."""

    method: str
    path: str
    """Path without the query."""
    headers: Mapping[str, str]
    """By name in lower case; values of repeated ones are joined by commas."""
    peer: str
    """Address of the caller in grpc's notation."""
    size_bytes: int
    """Length of the body."""

    @property
    def token(self) -> str:
        """Token of the caller; empty without one."""
        scheme, _, credentials = self.headers.get("authorization", "").strip().partition(" ")
        return credentials.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class _Names:
    """Model and version of a path, with the fields of the messages of gRPC."""

    name: str
    version: str


def route_of(request: Request) -> tuple[str, str, Mapping[str, str]]:
    """Return name of the route, its method and the parts of the path; `unknown` for a path that there is not."""
    for route, method, path in _PATHS:
        if (found := path.fullmatch(request.path)) is not None:
            return route, method, {name: unquote(part) for name, part in found.groupdict(default="").items()}
    return "unknown", "", {}


class Routes:
    """Requests to calls of the servicer and the data plane."""

    def __init__(
        self,
        plane: DataPlane,
        servicer: KServeServicer,
        *,
        guard: RoleInterceptor,
        bounds: BoundedCalls,
        requests: RequestInterceptor,
        message_bytes: int,
        on_refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Create it; `on_refused` is called with the reason of each request that `bounds` has no room for, or that is slow."""
        self._plane = plane
        self._servicer = servicer
        self._guard = guard
        self._bounds = bounds
        self._requests = requests
        self._message_bytes = message_bytes
        self.on_refused = on_refused

    @contextmanager
    def admitted(self, request: Request) -> Iterator[Call]:
        """Check a request before its body is read; its share of the bounds is held inside the block.

        Raises `HttpRefusal`, `Overloaded`.
        """
        held = self._bounds.held_by(request.peer)
        try:
            yield self._admit(request, held)
        finally:
            held.leave()

    def failed(self, error: Exception) -> Answer:
        """Return the answer for an error, and log it as a refusal of gRPC."""
        refusal = error if isinstance(error, HttpRefusal) else HttpRefusal.of(*status_of(error))
        self._requests.log_refusal(refusal.code, str(refusal))
        return refusal_answer(refusal)

    def _admit(self, request: Request, held: HeldCall) -> Call:
        route, method, parts = route_of(request)
        if route == "unknown":
            raise HttpRefusal(
                HTTPStatus.NOT_FOUND, f"no path {request.path[:80]!r}; want /v2, /v2/health/ready, /v2/models/NAME…"
            )
        if request.method != method and not (request.method == "HEAD" and method == "GET"):
            raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path[:80]} takes {method}", ("Allow", method))
        if "origin" in request.headers:  # a page of another site may send requests to this machine, unseen by its user
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "this server takes no requests of pages in a browser")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed requests are not accepted; send the body as it is")
        called = OPEN_METHOD if route in {"live", "ready"} else f"/{SERVICE}/{_METHODS[route]}"
        if (refusal := self._guard.refusal(called, request.token, place=TOKEN_PLACE)) is not None:
            raise HttpRefusal.of(*refusal)
        largest = self._message_bytes if route == "infer" else SMALL_BYTES
        if request.size_bytes > largest:
            raise HttpRefusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request has {request.size_bytes} bytes, want at most {largest}"
            )
        if route == "infer":
            self._plane.require_room(announced(request.headers.items()))
        if called != OPEN_METHOD:
            self._take(held, request.size_bytes)
        names = _Names(parts.get("model", ""), parts.get("version", ""))
        if route == "infer":
            return lambda body: self._infer(names, body, request.headers.get(HEADER_LENGTH))
        return lambda body: self._look_up(route, names)

    def _take(self, held: HeldCall, size_bytes: int) -> None:
        if (full := held.enter()) is not None:
            self.on_refused("calls")
            raise Overloaded(full)
        if (full := held.reserve(size_bytes)) is not None:
            self.on_refused("memory")
            raise Overloaded(full)

    async def _infer(self, names: _Names, body: bytes, header_length: str | None) -> Answer:
        request = read_infer(body, header_length)
        inference = await self._plane.infer(
            (names.name, names.version),
            request.tensors,
            outputs=request.outputs,
            patience_s=request.patience_s,
            priority=request.priority,
        )
        return await infer_answer(inference, request)

    async def _look_up(self, route: str, names: _Names) -> Answer:
        """Answer every route but `infer`; a server, model or version that is not ready is a bad request, as on Triton."""
        answers: dict[str, tuple[Callable[[Any, Any], Awaitable[Any]], str]] = {
            "live": (self._servicer.ServerLive, ""),
            "ready": (self._servicer.ServerReady, "the server is not ready: it serves no model, or is shutting down"),
            "model_ready": (self._servicer.ModelReady, f"{names.name} {names.version}".strip() + " is not served"),
            "metadata": (self._servicer.ServerMetadata, ""),
            "model": (self._servicer.ModelMetadata, ""),
            "config": (self._servicer.ModelConfig, ""),
            "stats": (self._servicer.ModelStatistics, ""),
        }
        call, not_ready = answers[route]
        message = await call(names, None)
        if route == "config":
            return json_answer(message_json(message.config))
        content = message_json(message)
        if route == "metadata":
            content["extensions"] = EXTENSIONS
        if content.get("ready") is False:
            return json_answer({"error": not_ready}, HTTPStatus.BAD_REQUEST)
        return json_answer(content)
