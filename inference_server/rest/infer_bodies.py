"""Bodies of `infer`: tensors as JSON numbers, or as bytes behind the JSON (the binary tensor data extension of KServe v2).

    {"inputs": [{"name", "datatype", "shape", "data": [...]}]}                                       JSON alone
    {"inputs": [{"name", "datatype", "shape", "parameters": {"binary_data_size": N}}]} bytes bytes   with bytes

With bytes, the header `Inference-Header-Content-Length` gives the length of the JSON, and the bytes of the inputs follow in the
order in which they are listed. The tensors are checked by `inference_server.tensors`, as those of gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json, to_json

from inference_server.data_plane import Inference
from inference_server.rest.answers import BINARY, Answer, HttpRefusal
from inference_server.tensors import BINARY_DATA, MOST_LISTED, Tensor, content_of, require_plain
from zerofleet.contracts.priorities import PRIORITY_PARAMETER, Priority, level_of
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.answers import refuse_answer

__all__ = ["HEADER_LENGTH", "MAX_JSON_BYTES", "InferRequest", "infer_answer", "read_infer"]

HEADER_LENGTH = "inference-header-content-length"
MAX_JSON_BYTES = 64 << 10
"""Largest JSON of a request: its parsing occupies the event loop, for 1 to 4 ms at this size."""

_BINARY_SIZE, _BINARY_OUTPUTS = "binary_data_size", "binary_data_output"
_TIMEOUT = "timeout"  # as tritonclient sends it, in microseconds
_PIECE = 4096  # numbers written between two turns of the event loop
_SHOWN = 40

Parameters = dict[str, Any]


class _Listed(BaseModel):
    """Entry of a list in the JSON of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    parameters: Parameters = Field(default_factory=dict, max_length=MOST_LISTED)


class _Input(_Listed):
    datatype: str
    shape: list[int] = Field(max_length=8)
    data: list[Any] | None = None


class _Json(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    inputs: list[_Input] = Field(max_length=MOST_LISTED)
    outputs: list[_Listed] = Field(default_factory=list, max_length=MOST_LISTED)
    parameters: Parameters = Field(default_factory=dict, max_length=MOST_LISTED)
    id: str = ""


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request, read; its tensors are not validated yet."""

    id: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    """Names of the wanted outputs; empty for all."""
    binary_by_default: bool
    binary: dict[str, bool]
    """Whether an output is sent as bytes, for those that say so themselves."""
    priority: Priority
    patience_s: float | None


def read_infer(body: bytes, header_length: str | None) -> InferRequest:
    """Return the request in a body; `header_length` is the header of that name. Raises `InvalidRequest`, `HttpRefusal`."""
    json_bytes = _json_length(body, header_length)
    if json_bytes > MAX_JSON_BYTES:
        raise HttpRefusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the JSON of the request has {json_bytes} bytes, want at most {MAX_JSON_BYTES}; send tensors as binary data, or"
            " fewer rows",
        )
    sent = _parsed(body[:json_bytes])
    return InferRequest(
        sent.id,
        _tensors(sent.inputs, memoryview(body)[json_bytes:]),
        tuple(output.name for output in sent.outputs),
        _flag(sent.parameters, _BINARY_OUTPUTS, "the request"),
        {output.name: _wanted_binary(output) for output in sent.outputs if output.parameters},
        _priority(sent.parameters),
        _patience(sent.parameters),
    )


async def infer_answer(inference: Inference, request: InferRequest) -> Answer:
    """Return the answer to a request. Long outputs in JSON are written in pieces, between which other tasks run.

    Raises `CorruptModel` for an output that is not finite, in either form; JSON could not hold it. Cancellation: no effect.
    """
    listed, contents = [], []
    for name, datatype, rows in inference.outputs:
        if not np.isfinite(rows).all():
            refuse_answer((inference.model, inference.version), f"{name} with numbers that are not finite")
        head = to_json({"name": name, "datatype": datatype, "shape": rows.shape})[:-1]
        if request.binary.get(name, request.binary_by_default):
            contents.append(rows.tobytes())
            listed.append(b'%b,"parameters":{"binary_data_size":%d}}' % (head, len(contents[-1])))
        else:
            listed.append(b'%b,"data":[%b]}' % (head, await _numbers(rows)))
    about = {"model_name": inference.model, "model_version": str(inference.version)} | (
        {"id": request.id} if request.id else {}
    )
    text = b'%b,"outputs":[%b]}' % (to_json(about)[:-1], b",".join(listed))
    if not contents:
        return Answer(HTTPStatus.OK, text)
    return Answer(HTTPStatus.OK, b"".join([text, *contents]), BINARY, (("Inference-Header-Content-Length", str(len(text))),))


async def _numbers(rows: Any) -> bytes:
    """Return the numbers of an array in JSON, separated by commas."""
    flat, pieces = rows.reshape(-1), []
    for start in range(0, len(flat), _PIECE):
        pieces.append(to_json(flat[start : start + _PIECE].tolist())[1:-1])
        if start:
            await asyncio.sleep(0)
    return b",".join(pieces)


def _json_length(body: bytes, header_length: str | None) -> int:
    if header_length is None:
        return len(body)
    if not (header_length.isascii() and header_length.isdigit() and len(header_length) <= 10):
        raise InvalidRequest(f"Inference-Header-Content-Length is {header_length[:_SHOWN]!r}, want a number of bytes")
    if int(header_length) > len(body):
        raise InvalidRequest(f"Inference-Header-Content-Length is {header_length}, but the body has {len(body)} bytes")
    return int(header_length)


def _parsed(text: bytes) -> _Json:
    try:
        content = from_json(text, allow_inf_nan=False)
        _require_few_keys(content)
        return _Json.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])[:_SHOWN] or "request"
        raise InvalidRequest(f"the JSON of the request is not one of infer: {where}: {fault['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {str(error)[:200]}") from error


def _require_few_keys(content: Any) -> None:
    """Raise `InvalidRequest` for objects with many keys: pydantic would describe each unknown one."""
    lists = [content.get(name) for name in ("inputs", "outputs")] if isinstance(content, dict) else []
    for found in [content, *chain.from_iterable(entries for entries in lists if isinstance(entries, list))]:
        if isinstance(found, dict) and len(found) > MOST_LISTED:
            raise InvalidRequest(f"the JSON of the request has an object with {len(found)} keys, want at most {MOST_LISTED}")


def _tensors(inputs: Sequence[_Input], binary: memoryview) -> tuple[Tensor, ...]:
    found, at = [], 0
    for tensor in inputs:
        shown = repr(tensor.name[:_SHOWN])
        if unknown := sorted(set(tensor.parameters) - {_BINARY_SIZE}):
            raise InvalidRequest(
                f"input {shown} has the parameter {unknown[0][:_SHOWN]!r}; want {_BINARY_SIZE} at most (shared memory is not"
                " supported, send the bytes)"
            )
        size = tensor.parameters.get(_BINARY_SIZE)
        if size is None:
            content = _json_content(tensor)
        elif tensor.data is not None:
            raise InvalidRequest(f"input {shown} has data beside {_BINARY_SIZE}; send one of the two")
        elif type(size) is not int or not 0 <= size <= len(binary) - at:
            raise InvalidRequest(
                f"input {shown} has {_BINARY_SIZE} {str(size)[:_SHOWN]}, but {len(binary) - at} bytes of binary data are left"
                " for it; is Inference-Header-Content-Length the length of the JSON?"
            )
        else:
            content, at = bytes(binary[at : at + size]), at + size
        found.append(Tensor(tensor.name, tensor.datatype, tuple(tensor.shape), content))
    if at != len(binary):
        raise InvalidRequest(f"{len(binary)} bytes of binary data follow the JSON, but the inputs list {at}")
    return tuple(found)


def _json_content(tensor: _Input) -> bytes:
    """Return the bytes of a tensor sent as JSON numbers, flat or row by row."""
    shown = repr(tensor.name[:_SHOWN])
    if tensor.data is None:
        raise InvalidRequest(f"input {shown} has neither data nor {_BINARY_SIZE}")
    numbers = tensor.data
    if numbers and isinstance(numbers[0], list):
        if not all(isinstance(row, list) for row in numbers) or {len(row) for row in numbers} != set(tensor.shape[-1:]):
            raise InvalidRequest(f"the rows of input {shown} do not have the lengths of its shape {tensor.shape}")
        numbers = list(chain.from_iterable(numbers))
    if others := set(map(type, numbers)) - {int}:
        names = ", ".join(sorted(kind.__name__ for kind in others))
        raise InvalidRequest(f"input {shown} has data of type {names}, want integers, flat or as rows")
    return content_of(tensor.name, tensor.datatype, numbers)


def _wanted_binary(output: _Listed) -> bool:
    require_plain(output.name, output.parameters)
    return _flag(output.parameters, BINARY_DATA, f"output {output.name[:_SHOWN]!r}")


def _flag(parameters: Parameters, name: str, owner: str) -> bool:
    value = parameters.get(name, False)
    if type(value) is not bool:
        raise InvalidRequest(f"parameter {name} of {owner} is {str(value)[:_SHOWN]}, want true or false")
    return value


def _priority(parameters: Parameters) -> Priority:
    if PRIORITY_PARAMETER not in parameters:
        return level_of(Priority.DEFAULT)
    return level_of(_whole_number(parameters, PRIORITY_PARAMETER))


def _patience(parameters: Parameters) -> float | None:
    """Return the time that the caller allows, in seconds; None if it names none, or 0."""
    microseconds = _whole_number(parameters, _TIMEOUT)
    if microseconds < 0:
        raise InvalidRequest(f"parameter {_TIMEOUT} is {microseconds}, want microseconds from 0")
    return microseconds / 1e6 or None


def _whole_number(parameters: Parameters, name: str) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise InvalidRequest(f"parameter {name} is {str(value)[:_SHOWN]}, want a whole number")
    return value
