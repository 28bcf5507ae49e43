"""Endpoints of the API as a table: path, answer and description each. Routes and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from games.errors import GameError
from games.faults import fault_of
from ui.catalogue import UnknownRun
from zerofleet.errors import (
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    RecordRejected,
    Unavailable,
    ZerofleetError,
)
from zerofleet.library.values import Value

__all__ = [
    "API",
    "Endpoint",
    "Fault",
    "Parameter",
    "StrictValue",
    "body_of",
    "moves_in",
    "openapi",
    "read_body",
    "read_json",
    "routes",
    "status_of",
]

API = "/api/v1"
MAX_BODY_BYTES = 64 << 10
MOST_TEXT = 32_000
"""Characters of the moves of a game in a request."""

Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[[Request], Awaitable[BaseModel | Response]]


class StrictValue(Value):
    """Body of a request, or an answer; a field that is not declared is refused."""

    model_config = ConfigDict(extra="forbid")


class Fault(BaseModel):
    """Answer to a request that failed."""

    error: str
    """Description of the fault, with the value received and the next step."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Query parameter."""

    name: str
    kind: str
    """Type in JSON schema."""
    about: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Path of the API with its handler."""

    path: str
    """Below `API`, with parameters in braces."""
    handler: Handler
    summary: str
    answer: type[BaseModel] | str
    """Model of the JSON answer, or the media type of another one."""
    method: str = "GET"
    body: type[BaseModel] | None = None
    query: Sequence[Parameter] = ()


def routes(endpoints: Sequence[Endpoint]) -> list[Route]:
    """Return the routes of the endpoints."""
    return [Route(API + one.path, _answering(one.handler), methods=[one.method]) for one in endpoints]


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Return the JSON body of a request. Raises `InvalidRequest`. Cancellation: nothing is kept."""
    return read_json(await body_of(request), kind, "body")


async def body_of(request: Request) -> bytes:
    """Return the body of a request. Raises `InvalidRequest` for a long one, or a client that has left.

    Cancellation: nothing is kept.
    """
    content = b""
    try:
        async for part in request.stream():
            content += part
            if len(content) > MAX_BODY_BYTES:
                raise InvalidRequest(f"the body has more than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise InvalidRequest("the client has left before the end of its request") from None
    return content


def read_json(content: bytes | str, kind: type[Body], name: str) -> Body:
    """Return the value that JSON holds; `name` is its place in the request. Raises `InvalidRequest`."""
    try:
        return kind.model_validate_json(content)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise InvalidRequest(f"{'.'.join(map(str, fault['loc'])) or name}: {fault['msg']}") from error


def moves_in(request: Request, most: int = MOST_TEXT) -> str:
    """Return the moves, in notation, of a query; empty without any. Raises `InvalidRequest` for more than `most` characters."""
    text = request.query_params.get("moves", "")
    if len(text) > most:
        raise InvalidRequest(f"the moves have more than {most} characters")
    return text.strip()


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error that is raised on purpose."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def openapi(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the endpoints."""
    answers: list[type[BaseModel]] = [one.answer for one in endpoints if not isinstance(one.answer, str)]
    answers.append(Fault)
    bodies = [one.body for one in endpoints if one.body is not None]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "serialization") for model in dict.fromkeys(answers)]
    models += [(model, "validation") for model in dict.fromkeys(bodies)]  # where a field with a default may be left out
    _, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(API + one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Zerofleet", "version": version, "description": "Runs, their games and models, and play."},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


_STATUSES: Sequence[tuple[type[Exception], int]] = (
    (UnknownRun, 404),
    (ModelNotFound, 404),
    (InvalidRequest, 400),
    (GameError, 400),
    (RecordRejected, 422),
    (PermissionRefused, 403),
    (Overloaded, 503),
    (Unavailable, 503),
    (ZerofleetError, 409),
)


def _answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            found = await handler(request)
        except (ZerofleetError, GameError, OSError) as error:
            return JSONResponse({"error": str(error)}, status_of(error))
        except Exception as error:
            if (fault := fault_of(error)) is None:
                raise
            return JSONResponse({"error": str(fault)}, 500)
        if isinstance(found, Response):
            return found
        return Response(found.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})

    return answer


def _operation(one: Endpoint) -> dict[str, Any]:
    named = [part.partition("}")[0] for part in one.path.split("{")[1:]]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named]
    parameters += [
        {"name": asked.name, "in": "query", "required": asked.is_required, "description": asked.about}
        | {"schema": {"type": asked.kind}}
        for asked in one.query
    ]
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": one.handler.__name__,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Answer", "content": _content(one.answer)},
            "default": {"description": "Failure", "content": _content(Fault)},
        },
    }
    if one.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(one.body)}
    return operation


def _content(kind: type[BaseModel] | str) -> Mapping[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
